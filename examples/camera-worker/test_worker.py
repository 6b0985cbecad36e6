"""The worker as a process, with the test as its manager; events go to standard output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from camera_worker.ulid import is_ulid
from stage import HERE, Shard, assignment, boottime, camera, lives, wait_for

EVENT = {"event_id", "camera_uuid", "fencing_token", "degraded", "frame", "timestamp", "runner_id", "shard_id", "detections"}


def filmed_at(event: dict[str, Any]) -> float:
    """When the frame of an event was filmed, in seconds since 1970."""
    return datetime.fromisoformat(event["timestamp"].replace("Z", "+00:00")).timestamp()


class Stage(unittest.TestCase):
    def start(self, *cameras: dict[str, Any], **env: Any) -> Shard:
        shard = Shard(*cameras, **env)
        self.addCleanup(shard.close)
        return shard

    def working(self, *cameras: dict[str, Any], **env: Any) -> Shard:
        """A worker that has published something of every camera."""
        shard = self.start(*cameras, **env)
        for each in cameras:
            self.goes_on(shard, each["camera_uuid"])
        return shard

    def goes_on(self, shard: Shard, uuid: str) -> None:
        before = len(shard.events(uuid))
        wait_for(f"{uuid} is worked on: {shard.log()}", lambda: len(shard.events(uuid)) > before)

    def stands(self, shard: Shard, uuid: str) -> None:
        """Checks that nothing comes of a camera for a moment."""
        before = len(shard.events(uuid))
        time.sleep(0.5)
        self.assertEqual(len(shard.events(uuid)), before)


class Working(Stage):
    def test_what_is_published_and_what_the_manager_is_told(self) -> None:  # proves R188, R243, C50, C46, U22
        shard = self.working(camera("cam-1", token=12), camera("cam-2", degraded=True))
        wait_for("it goes on for a while", lambda: len(shard.events("cam-1")) > 20)
        events = shard.events()
        self.assertTrue(all(set(event) == EVENT and is_ulid(event["event_id"]) for event in events))
        self.assertEqual(len({event["event_id"] for event in events}), len(events))
        self.assertTrue(all(event["degraded"] == (event["camera_uuid"] == "cam-2") for event in events))
        first = shard.events("cam-1")[0]
        self.assertEqual((first["fencing_token"], first["runner_id"], first["shard_id"]), (12, "runner-a", 0))
        self.assertEqual([each["label"] for each in first["detections"]], ["person", "car"])
        frames = [event["frame"] for event in shard.events("cam-1")]
        self.assertEqual(frames, sorted(set(frames)), "each frame once, in order")
        wait_for("heartbeats", lambda: shard.heard.count("WATCHDOG=1") >= 3)
        self.assertEqual(shard.heard.count("READY=1"), 1)
        self.assertTrue(shard.applied(1))
        self.assertIn("STATUS=working on 2 of 2 cameras", shard.heard)
        self.assertNotIn("secret", shard.log())

    def test_frames_of_a_file(self) -> None:
        directory = self.enterContext(tempfile.TemporaryDirectory())
        path = Path(directory, "frames")
        path.write_text('{"objects": [{"label": "dog", "score": 1, "box": [1, 2, 3, 4]}]}\n')
        shard = self.working(camera("cam-1"), FRAMES=str(path))
        self.assertEqual(shard.events()[0]["detections"][0]["label"], "dog")

    def test_a_new_generation_changes_only_what_it_names(self) -> None:  # proves R206, R207, R218, R219, U23
        kept = camera("kept")
        shard = self.working(kept, camera("taken"), camera("zoned"), camera("again", token=1))
        zone = {"zone_id": 7, "kind": "include", "polygon": [[100, 100], [400, 100], [400, 400], [100, 400]]}
        told = shard.assign(kept, camera("zoned", zones=[zone]), camera("again", token=2), camera("new"))
        shard.tell(signal.SIGHUP)
        wait_for("it says that it has let go", lambda: shard.applied(told))
        last = shard.events("taken")[-1]["frame"]
        for uuid in ("kept", "new", "zoned"):
            self.goes_on(shard, uuid)
        self.assertEqual(shard.events("taken")[-1]["frame"], last, "nothing comes of it after its word")
        wait_for("the zone counts", lambda: [each.get("zone_id") for each in shard.events("zoned")[-1]["detections"]] == [7])
        wait_for("the other token is used", lambda: shard.events("again")[-1]["fencing_token"] == 2)
        tokens = [event["fencing_token"] for event in shard.events("again")]
        self.assertEqual(tokens, sorted(tokens), "the terms of a camera do not mix")
        self.assertIsNone(shard.process.poll())
        # kept, taken, zoned, again twice, new: nothing else began anew.
        self.assertEqual((shard.logged("camera_started"), shard.logged("worker_started")), (6, 1))

    def test_a_file_that_is_only_watched_is_seen_too(self) -> None:  # proves R206
        shard = self.working(camera("one"))
        told = shard.assign(camera("one"), camera("two"))
        wait_for("it is seen without a signal", lambda: shard.applied(told))
        self.goes_on(shard, "two")

    def test_a_file_that_becomes_wrong_leaves_the_old_one_in_force(self) -> None:
        shard = self.working(camera("cam-1"))
        older = json.dumps(assignment(0, []))
        for wrong in ["{", '{"format": 1}', older]:
            said = shard.logged("assignment_refused")
            shard.write(wrong)
            wait_for("it is said", self.is_said(shard, said + 1))
            self.goes_on(shard, "cam-1")
        shard.path.unlink()
        wait_for("it is said", lambda: shard.logged("assignment_refused") == 4)
        self.goes_on(shard, "cam-1")
        self.assertEqual(shard.logged("assignment_refused"), 4, "each is said once")
        told = shard.assign(camera("cam-2"))
        wait_for("a good one counts again", lambda: shard.applied(told))

    @staticmethod
    def is_said(shard: Shard, times: int) -> Callable[[], bool]:
        return lambda: shard.logged("assignment_refused") == times


class Ending(Stage):
    def test_a_camera_ends_by_its_own_deadline_and_begins_again_when_it_is_trusted(self) -> None:  # proves R216, R217, C52
        until = boottime() + 4
        deadline = time.time() + until - boottime()
        short = camera("short", until=until)
        shard = self.working(short, camera("long"))
        wait_for("it stops by itself", lambda: shard.logged("camera_stopped") == 1)
        self.assertGreaterEqual(boottime(), until - 0.1)
        last = len(shard.events("short"))
        self.goes_on(shard, "long")
        # A frame is filmed before it is published, and nothing is published after the deadline.
        self.assertLess(filmed_at(shard.events("short")[-1]), deadline + 0.2)
        self.assertEqual(len(shard.events("short")), last)
        wait_for("it says so", lambda: "STATUS=working on 1 of 2 cameras" in shard.heard)
        shard.assign(camera("short"), camera("long"), same_generation=True)
        self.goes_on(shard, "short")
        self.assertEqual(shard.generation, 1)

    def test_one_that_stood_still_past_its_deadline_publishes_nothing(self) -> None:  # proves R216, C52
        until = boottime() + 4
        shard = self.working(camera("cam-1", until=until))
        shard.tell(signal.SIGSTOP)
        before = len(shard.events())
        wait_for("the deadline passes", lambda: boottime() > until + 0.5)
        shard.tell(signal.SIGCONT)
        wait_for("it notices", lambda: shard.logged("camera_stopped") == 1)
        # At most what was on its way to the pipe when it was stopped.
        self.assertLessEqual(len(shard.events()), before + 1)

    def test_renewals_move_the_deadline_without_a_word(self) -> None:  # proves R217
        shard = self.working(camera("cam-1", until=boottime() + 5))
        began = boottime()
        while boottime() < began + 7:
            shard.assign(camera("cam-1", until=boottime() + 5), same_generation=True)
            time.sleep(0.5)
        self.goes_on(shard, "cam-1")
        self.assertEqual((shard.logged("camera_started"), shard.logged("camera_stopped")), (1, 0))

    def test_it_ends_when_its_manager_does(self) -> None:  # proves C52
        manager = subprocess.Popen(["sleep", "3600"])
        self.addCleanup(manager.wait)
        self.addCleanup(manager.kill)
        shard = self.working(camera("cam-1"), manager=manager.pid)
        manager.kill()
        self.assertEqual(shard.ends(), 1)
        self.assertIn("its manager is gone", shard.log())
        # One that died before its worker could look has never been there.
        manager.wait()
        self.assertEqual(self.start(camera("cam-1"), manager=manager.pid).ends(), 1)

    def test_another_parent_is_not_the_manager(self) -> None:  # proves C52
        directory = self.enterContext(tempfile.TemporaryDirectory())
        watch = (
            "import time; from camera_worker.parent import Parent; parent = Parent(1); print('looks', flush=True)\n"
            "while not parent.is_gone(): time.sleep(0.02)\nprint('gone', flush=True)"
        )
        said = Path(directory, "said")
        with said.open("w") as out:
            between = subprocess.Popen(["sh", "-c", f'"{sys.executable}" -c "{watch}" & wait'], stdout=out, cwd=HERE)
        self.addCleanup(between.wait)
        wait_for("it looks", lambda: "looks" in said.read_text())
        self.assertNotIn("gone", said.read_text())
        between.kill()
        wait_for("it notices", lambda: "gone" in said.read_text())

    def test_sigterm_and_drain_send_what_is_there_and_end_well(self) -> None:  # proves R190, U20
        for end in (
            lambda shard: shard.tell(signal.SIGTERM),
            lambda shard: self.assertEqual(shard.ask("/drain", "POST")[0], 202),
        ):
            shard = self.working(camera("cam-1"), camera("cam-2"))
            end(shard)
            self.assertEqual(shard.ends(), 0)
            self.assertEqual(shard.logged("camera_stopped"), 2)
            stopped = json.loads(shard.log().splitlines()[-1])
            self.assertEqual((stopped["event"], stopped["sent"]), ("worker_stopped", len(shard.events())))
            self.assertEqual(sum(stopped["dropped"].values()), 0)


class Asked(Stage):
    def test_endpoints(self) -> None:  # proves R191, R230, C53, U20
        shard = self.working(camera("cam-1"))
        status, health = shard.ask("/healthz")
        self.assertEqual((status, json.loads(health)["applied"]), (200, 1))
        self.assertEqual(shard.ask("/ready")[0], 200)
        self.assertEqual((shard.ask("/drain")[0], shard.ask("/nothing")[0]), (405, 404))
        status, figures = shard.ask("/metrics", port="metrics_port")
        self.assertEqual(status, 200)
        self.assertIn("camera_worker_cameras_working 1\n", figures)
        self.assertRegex(figures, r'camera_worker_frames_total\{camera_uuid="cam-1"\} [1-9]')
        # Assigned, but not trusted: four of five would be enough, one of three is not.
        past = boottime() - 1
        told = shard.assign(camera("cam-1"), camera("cam-2", until=past), camera("cam-3", until=past))
        wait_for("it is not ready", lambda: shard.applied(told) and shard.ask("/ready")[0] == 503)

        request = urllib.request.Request(
            f"http://127.0.0.1:{shard._ports['http_port']}/drain", method="POST", headers={"Origin": "http://x"}
        )
        with self.assertRaisesRegex(urllib.error.HTTPError, "403"):
            urllib.request.urlopen(request, timeout=10)
        self.assertEqual(shard.ask("/terminate", "POST")[0], 0)
        self.assertEqual(shard.ends(), 1)

    def test_what_it_cannot_start_with_is_said(self) -> None:
        shard = self.working(camera("cam-1"))
        for write, env, word in [
            ("{", {}, "not JSON"),
            (shard.path.read_text(), {}, "cannot be had"),
            (None, {"FPS": "fast"}, "CAMERA_WORKER_FPS"),
            (None, {"FRAMES": "/nowhere"}, "/nowhere"),
        ]:
            other = self.start(camera("cam-1"), **env) if write is None else self.second(write)
            self.assertEqual(other.ends(), 2, other.log())
            self.assertIn(word, other.log())
            self.assertEqual(len(other.log().splitlines()), 1, other.log())

    def second(self, text: str) -> Shard:
        """A worker that finds this file, by whomever it was written."""

        class Found(Shard):
            def assign(self, *_: Any, same_generation: bool = False) -> int:
                self.write(text)
                return 0

        shard = Found()
        self.addCleanup(shard.close)
        return shard


class Misbehaving(Stage):
    def bad(self, manner: str, **more: Any) -> dict[str, Any]:
        return camera("bad", rtsp_url=f"rtsp://test-pattern/?misbehave={manner}", **more)

    def test_crash(self) -> None:
        self.assertEqual(self.start(self.bad("crash")).ends(), 70)
        self.assertEqual(self.start(camera("cam-1"), MISBEHAVE="crash").ends(), 70)

    def test_hang(self) -> None:
        until = boottime() + 5
        shard = self.working(self.bad("hang", until=until))
        wait_for("it hangs", lambda: shard.logged("misbehaving"))
        said = len(shard.heard)
        shard.tell(signal.SIGTERM)
        # The manager says nothing that it could hear; its camera ends all the same.
        wait_for("its camera stops by itself", lambda: shard.logged("camera_stopped") == 1)
        self.assertEqual(len(shard.heard), said, "no more heartbeats")
        self.assertIsNone(shard.process.poll())

    def test_ignore_sigterm(self) -> None:
        shard = self.working(camera("cam-1"), MISBEHAVE="ignore-sigterm")
        shard.tell(signal.SIGTERM)
        self.goes_on(shard, "cam-1")
        shard.tell(signal.SIGKILL)
        self.assertEqual(shard.ends(), -signal.SIGKILL)

    def test_leak_children(self) -> None:
        shard = self.working(camera("cam-1"), MISBEHAVE="leak-children")

        def found() -> list[int]:
            return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and self.group(int(pid)) == shard.process.pid]

        wait_for("it has children and grandchildren", lambda: len(found()) >= 5)
        shard.tell(signal.SIGTERM)
        self.assertEqual(shard.ends(), 0)
        left = found()
        self.assertGreaterEqual(len(left), 4, "they outlive it")
        os.killpg(shard.process.pid, signal.SIGKILL)
        wait_for("they go with their group", lambda: not any(map(lives, left)))

    @staticmethod
    def group(pid: int) -> int:
        try:
            return os.getpgid(pid)
        except ProcessLookupError:
            return 0

    def test_never_let_go(self) -> None:
        until = boottime() + 3
        shard = self.working(self.bad("never-let-go", until=until), camera("good", until=until))
        told = shard.assign()
        wait_for(
            "the good one is let go, and the deadline passes", lambda: shard.logged("camera_stopped") == 1 and boottime() > until
        )
        self.goes_on(shard, "bad")
        self.assertFalse(shard.applied(told))
        self.stands(shard, "good")

    def test_babble(self) -> None:
        shard = self.working(camera("cam-1"), MISBEHAVE="babble")
        wait_for("it says nonsense", lambda: "APPLIED=minus one" in shard.heard)
        self.assertIn("WATCHDOG=1", shard.heard)


if __name__ == "__main__":
    unittest.main()
