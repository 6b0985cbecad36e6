"""Tests of the parts of the worker and of the consumer; whole processes are tested in test_worker.py and test_published.py."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import re
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any

from camera_consumer.fence import Fence
from camera_worker import report, settings
from camera_worker.assignment import AssignmentError, File, Term, parse
from camera_worker.frames import FramesError, Recorded, TestPattern
from camera_worker.log import Log
from camera_worker.outbox import Letter, Outbox
from camera_worker.sinks import SinkError
from camera_worker.ulid import Ulids, is_ulid, text
from camera_worker.zones import detections, inside
from stage import assignment, camera, wait_for


class Ids(unittest.TestCase):
    def test_each_is_greater_than_the_one_before(self) -> None:  # proves C46
        ulids = Ulids()
        made = [ulids.next() for _ in range(5000)]
        self.assertTrue(all(map(is_ulid, made)))
        self.assertTrue(all(one < two for one, two in itertools.pairwise(made)))

    def test_they_are_written_as_everybody_writes_them(self) -> None:
        self.assertEqual(text((1 << 128) - 1), "7" + "Z" * 25)
        self.assertEqual(text(1469918176385 << 80), "01ARYZ6S41" + "0" * 16)
        for wrong in ("", "8" + "0" * 25, "0" * 25, "I" * 26, None):
            self.assertFalse(is_ulid(wrong))


class Assignments(unittest.TestCase):
    def test_what_the_manager_writes_is_understood(self) -> None:  # proves R243, C52
        found = parse(assignment(7, [camera("cam-1", token=12, until=99.5, degraded=True), camera("cam-2")], http_port=8080))
        self.assertEqual((found.generation, found.http_port, len(found.cameras)), (7, 8080, 2))
        first = found.cameras[Term("cam-1", "lease-of-cam-1", 12)]
        self.assertEqual((first.trusted_until, first.degraded, first.tenant), (99.5, True, "tenant-1"))

    def test_zones_of_the_site_hold_besides_the_cameras_own(self) -> None:  # proves R207
        given = {**camera("cam-1", zones=[{"zone_id": 1}]), "site_zones": [{"zone_id": "site"}]}
        (found,) = parse(assignment(1, [given])).cameras.values()
        self.assertEqual([zone["zone_id"] for zone in found.document["zones"]], [1, "site"])

    def test_what_is_wrong_is_named(self) -> None:
        def wrong(**changes: Any) -> dict[str, Any]:
            return {**assignment(1, [camera("cam-1")]), **changes}

        for found, word in [
            ([], "object"),
            ({}, "format is missing"),
            (wrong(format=2), "format 2"),
            (wrong(generation="1"), "generation"),
            (wrong(generation=True), "generation"),
            (wrong(heartbeat_seconds=0), "heartbeat_seconds"),
            (wrong(http_port=70000), "http_port"),
            (wrong(cameras=[camera("cam-1"), camera("cam-1", token=2)]), "twice"),
            (wrong(cameras=[{**camera("cam-1"), "fencing_token": "1"}]), "fencing_token"),
            (wrong(cameras=[{**camera("cam-1"), "trusted_until_boottime": None}]), "trusted_until_boottime"),
        ]:
            with self.assertRaisesRegex(AssignmentError, word):
                parse(found)

    def test_a_file_is_read_again_only_when_it_was_replaced(self) -> None:  # proves U23
        directory = self.enterContext(tempfile.TemporaryDirectory())
        path = Path(directory, "shard.json")
        with self.assertRaisesRegex(AssignmentError, "cannot be read"):
            File(str(path)).changed()
        path.write_text(json.dumps(assignment(1, [])))
        file = File(str(path))
        self.assertIsNotNone(file.changed())
        self.assertIsNone(file.changed())
        other = Path(directory, "other")
        other.write_text("{")
        other.rename(path)
        with self.assertRaisesRegex(AssignmentError, "not JSON"):
            file.changed()
        self.assertIsNone(file.changed(), "what is wrong is said once")


class Seeing(unittest.TestCase):
    SQUARE = [[0, 0], [100, 0], [100, 100], [0, 100]]

    def test_points_in_and_out_of_polygons(self) -> None:
        hollow = [[0, 0], [100, 0], [100, 100], [50, 10], [0, 100]]
        self.assertTrue(inside(50, 50, self.SQUARE) and inside(10, 50, hollow))
        self.assertFalse(inside(101, 50, self.SQUARE) or inside(50, 50, hollow) or inside(0, 0, []))

    def test_zones_labels_and_scores_decide_what_is_reported(self) -> None:  # proves R243
        person, car = (
            {"label": "person", "score": 0.9, "box": [10, 10, 10, 10]},
            {"label": "car", "score": 0.4, "box": [500, 0, 10, 10]},
        )

        def reported(**document: Any) -> list[str]:
            return [each["label"] for each in detections([person, car], document)]

        here = {"zone_id": 1, "kind": "include", "polygon": self.SQUARE, "priority": 1}
        self.assertEqual(reported(), ["person", "car"])
        self.assertEqual(reported(min_score=0.5), ["person"])
        self.assertEqual(reported(allow_labels=["car"]), ["car"])
        self.assertEqual(reported(zones=[here]), ["person"])
        self.assertEqual(detections([person], {"zones": [here]})[0]["zone_id"], 1)
        self.assertEqual(reported(zones=[{**here, "kind": "exclude"}]), ["car"])
        self.assertEqual(reported(zones=[here, {**here, "kind": "exclude", "priority": 2}]), [])
        self.assertEqual(reported(zones=[{**here, "allow_labels": ["dog"]}]), [])

    def test_frames_of_a_file_come_over_and_over(self) -> None:
        path = Path(self.enterContext(tempfile.TemporaryDirectory()), "frames")
        path.write_text('{"objects": []}\n{"objects": [{"label": "dog", "score": 1, "box": [1, 2, 3, 4]}]}\n')
        film = Recorded(str(path))
        self.assertEqual([len(film.frame(number)) for number in range(4)], [0, 1, 0, 1])
        for wrong in ("", "[]", '{"objects": [{"label": "dog"}]}'):
            path.write_text(wrong)
            self.assertRaises(FramesError, Recorded, str(path))
        self.assertNotEqual(TestPattern().frame(0), TestPattern().frame(50))


class Settled(unittest.TestCase):
    def test_the_environment_is_read_and_nonsense_is_named(self) -> None:
        found = settings.load({"CAMERA_WORKER_FPS": "12.5", "CAMERA_WORKER_MISBEHAVE": "crash, hang"})
        self.assertEqual((found.fps, found.misbehave), (12.5, {"crash", "hang"}))
        for name, value in [
            ("FPS", "fast"),
            ("FPS", "0"),
            ("MISBEHAVE", "dance"),
            ("AMQP_URL", "http://h"),
            ("AMQP_URL_FILE", "/nowhere"),
        ]:
            with self.assertRaises(settings.SettingsError):
                settings.load({f"CAMERA_WORKER_{name}": value})

    def test_a_password_comes_from_a_file_and_is_in_no_error(self) -> None:  # proves U22
        path = Path(self.enterContext(tempfile.TemporaryDirectory()), "url")
        path.write_text("amqp://u:secret@127.0.0.1/\n")
        self.assertEqual(settings.load({"CAMERA_WORKER_AMQP_URL_FILE": str(path)}).amqp_url, "amqp://u:secret@127.0.0.1/")
        path.write_text("u:secret@127.0.0.1")
        with self.assertRaises(settings.SettingsError) as failed:
            settings.load({"CAMERA_WORKER_AMQP_URL_FILE": str(path)})
        self.assertNotIn("secret", str(failed.exception))

    def test_a_camera_asks_for_misbehaviour_by_its_address(self) -> None:
        self.assertEqual(settings.of_camera({"rtsp_url": "rtsp://test-pattern/?misbehave=crash,hang"}), {"crash", "hang"})
        for plain in (
            {},
            {"rtsp_url": "rtsp://camera.local/stream?a=1"},
            {"rtsp_url": "rtsp://h/?misbehave=dance"},
            {"rtsp_url": "rtsp://["},
        ):
            self.assertEqual(settings.of_camera(plain), frozenset())

    def test_four_of_five_cameras_are_enough(self) -> None:  # proves U20
        self.assertTrue(report.is_ready(0, 0) and report.is_ready(5, 4))
        self.assertFalse(report.is_ready(5, 3) or report.is_ready(1, 0))


class Unsure:
    """A sink that fails as often as it is told to, and may have sent all the same."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.sent: list[str] = []
        self.opening, self.sending = threading.Event(), threading.Event()
        self.opening.set()
        self.sending.set()

    def open(self) -> None:
        self.opening.wait()

    def send(self, key: str, event: dict[str, Any]) -> None:
        self.sending.wait()
        self.sent.append(event["event_id"])
        if self.failures > 0:
            self.failures -= 1
            raise SinkError("no confirmation")

    def idle(self) -> None:
        pass

    def close(self) -> None:
        pass


class Outgoing(unittest.TestCase):
    TERM, OTHER = Term("cam-1", "lease-1", 1), Term("cam-2", "lease-2", 1)

    def setUp(self) -> None:
        self.enterContext(contextlib.redirect_stderr(io.StringIO()))
        self.trusted = True

    def letter(self, name: str, term: Term = TERM) -> Letter:
        return Letter(term, lambda: self.trusted, "key", {"event_id": name})

    def test_what_is_not_confirmed_is_sent_again_in_order_under_its_id(self) -> None:  # proves C46
        sink = Unsure(failures=2)
        outbox = Outbox(sink, 10, Log())
        outbox.put(self.letter("a"))
        outbox.put(self.letter("b"))
        wait_for("all is confirmed", lambda: outbox.sent == 2)
        self.assertEqual(sink.sent, ["a", "a", "a", "b"])
        self.assertEqual(outbox.waiting(self.TERM), 0)

    def test_nothing_is_tried_again_once_trust_has_ended(self) -> None:  # proves C45, C52
        sink = Unsure(failures=1_000_000)
        outbox = Outbox(sink, 10, Log())
        outbox.put(self.letter("a"))
        outbox.put(self.letter("b"))
        wait_for("it was tried", lambda: sink.sent)
        self.trusted = False
        wait_for("nothing waits any more", lambda: not outbox.waiting(self.TERM))
        self.assertEqual((outbox.sent, outbox.dropped["trust_ended"]), (0, 2))
        self.assertNotIn("b", sink.sent)

    def test_a_connection_that_takes_long_does_not_send_what_is_not_ours_any_more(self) -> None:  # proves C45, C52
        sink = Unsure(failures=0)
        sink.opening.clear()
        outbox = Outbox(sink, 10, Log())
        outbox.put(self.letter("late"))
        outbox.put(self.letter("let go", self.OTHER))
        wait_for("it connects", lambda: len(outbox._queue) == 1)
        outbox.discard(self.OTHER)
        self.trusted = False
        sink.opening.set()
        wait_for("it is given up", lambda: not outbox.waiting(self.TERM))
        self.trusted = True
        outbox.put(self.letter("ours"))
        wait_for("what is ours goes out", lambda: outbox.sent == 1)
        self.assertEqual(sink.sent, ["ours"])

    def test_the_oldest_goes_when_there_are_too_many_and_the_rest_when_a_camera_is_let_go(self) -> None:
        sink = Unsure(failures=0)
        sink.sending.clear()
        outbox = Outbox(sink, 2, Log())
        outbox.put(self.letter("under way"))
        wait_for("it is taken", lambda: outbox.waiting(self.TERM) == 1 and not outbox._queue)
        for name, term in [("a", self.TERM), ("b", self.TERM), ("c", self.OTHER)]:
            outbox.put(self.letter(name, term))
        self.assertEqual((outbox.dropped["queue_full"], outbox.waiting(self.TERM)), (1, 2))
        outbox.discard(self.TERM)
        self.assertEqual((outbox.waiting(self.TERM), outbox.waiting(self.OTHER)), (0, 1))
        sink.sending.set()
        wait_for("the other camera's goes out", lambda: sink.sent == ["under way", "c"])
        self.assertEqual(outbox.dropped["let_go"], 2)


class Accepting(unittest.TestCase):
    def setUp(self) -> None:
        self.path = str(Path(self.enterContext(tempfile.TemporaryDirectory()), "events.db"))
        self.fence = Fence(self.path, keep=5)
        self.ulids = Ulids()

    def event(self, token: int, frame: int, runner: str = "r1", **changes: Any) -> bytes:
        said = {
            "event_id": self.ulids.next(),
            "camera_uuid": "cam-1",
            "fencing_token": token,
            "degraded": False,
            "frame": frame,
            "timestamp": "2026-01-01T00:00:00Z",
            "runner_id": runner,
            "shard_id": 0,
            "detections": [],
            **changes,
        }
        return json.dumps(said).encode()

    def test_each_once_and_none_of_a_former_owner(self) -> None:  # proves C45, C46, R216
        first = self.event(1, 10)
        for body, verdict in [
            (first, "accepted"),
            (first, "duplicate"),
            (self.event(1, 11), "accepted"),
            (self.event(1, 12, "r2"), "conflict"),
            (self.event(3, 15, "r2"), "accepted"),
            (self.event(1, 16), "stale"),
            (self.event(2, 16, "r3"), "stale"),
            (first, "duplicate"),
            (self.event(1, 1, camera_uuid="cam-2"), "accepted"),
        ]:
            self.assertEqual(self.fence.take(body), verdict)
        # A consumer that was killed knows the same.
        self.fence = Fence(self.path)
        self.assertEqual(self.fence.take(self.event(2, 17, "r3")), "stale")
        self.assertEqual(self.fence.take(first), "duplicate")
        self.assertEqual(self.fence.summary()["refused"], {"conflict": 1, "duplicate": 3, "stale": 3})

    def test_frames_that_are_missing_were_lost(self) -> None:  # proves R227, C46
        for token, frame in [(1, 100), (1, 101), (1, 104), (2, 110), (2, 109), (2, 111)]:
            self.fence.take(self.event(token, frame))
        self.assertEqual(self.fence.summary()["frames_lost"], {"in_takeovers": 5, "otherwise": 2})

    def test_what_is_no_event_is_refused_and_harms_nothing(self) -> None:
        good = json.loads(self.event(1, 1))
        for wrong in [b"", b"[]", b"\xff", b"{}"]:
            self.assertEqual(self.fence.take(wrong), "malformed")
        for name, value in [
            ("fencing_token", "1"),
            ("fencing_token", True),
            ("fencing_token", -1),
            ("frame", 1 << 70),
            ("detections", {}),
        ]:
            self.assertEqual(self.fence.take(json.dumps({**good, name: value}).encode()), "malformed")
        self.assertEqual(self.fence.take(json.dumps(good).encode()), "accepted")

    def test_what_is_remembered_has_a_limit(self) -> None:
        for frame in range(20):
            self.fence.take(self.event(1, frame))
        kept = self.fence._db.execute("SELECT count(*) FROM events").fetchone()[0]
        self.assertEqual((kept, self.fence.summary()["accepted"]), (5, 20))


class Logged(unittest.TestCase):
    def test_log_lines_are_json_with_the_agreed_fields(self) -> None:  # proves R231, U22
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            Log(runner_id="r", shard_id=0).of(tenant_id="t", site_id="s", camera_uuid="c").warn(
                "happened", "so", error_code="e", duration_ms=1
            )
        line = json.loads(said.getvalue())
        agreed = {
            "ts",
            "level",
            "runner_id",
            "shard_id",
            "site_id",
            "tenant_id",
            "camera_uuid",
            "event",
            "msg",
            "error_code",
            "duration_ms",
        }
        self.assertEqual(set(line), agreed)
        self.assertTrue(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["ts"]), line["ts"])


if __name__ == "__main__":
    unittest.main()
