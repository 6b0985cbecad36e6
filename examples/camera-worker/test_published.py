"""Workers, RabbitMQ and the consumer, judged by what the consumer accepted. `AMQP_URL` says where the broker is."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
import unittest
from typing import Any

import pika
from broker import Consumer, Line
from stage import FPS, Shard, boottime, camera, wait_for

URL = os.environ.get("AMQP_URL", "")


class Published(unittest.TestCase):
    def setUp(self) -> None:
        self.name = self._testMethodName
        self.line = Line(URL)
        self.addCleanup(self.line.close)
        self.consumer = Consumer(URL, self.name)
        self.addCleanup(self.consumer.close)

    def start(self, *cameras: dict[str, Any], runner: str = "runner-a", **env: Any) -> Shard:
        shard = Shard(*cameras, runner=runner, AMQP_URL=self.line.url, EXCHANGE=self.name, **env)
        self.addCleanup(shard.close)
        return shard

    def accepts(self, token: int, more: int = 1) -> None:
        """Waits until the consumer accepts more under a token."""

        def count() -> int:
            return sum(found == token for found, _ in self.consumer.accepted())

        before = count()
        wait_for(f"more is accepted under {token}", lambda: count() >= before + more)

    def assert_one_owner(self) -> None:
        """Tokens only ever rise, and no frame was accepted twice."""
        accepted = self.consumer.accepted()
        tokens = [token for token, _ in accepted]
        self.assertEqual(tokens, sorted(tokens))
        self.assertEqual(len(set(accepted)), len(accepted))

    def missing(self) -> int:
        """How many frames of all that was accepted are missing."""
        return sum(two - one - 1 for (_, one), (_, two) in itertools.pairwise(self.consumer.accepted()))

    def test_frames_lost_in_an_unplanned_takeover_are_counted(self) -> None:  # proves R216, R227, C46
        one = self.start(camera("cam-1", token=1))
        self.accepts(1, more=10)
        one.tell(signal.SIGKILL)
        one.ends()
        killed = time.monotonic()
        wait_for("a while passes", lambda: time.monotonic() > killed + 1)
        two = self.start(camera("cam-1", token=2), runner="runner-b")
        self.accepts(2, more=10)
        two.tell(signal.SIGTERM)
        self.assertEqual(two.ends(), 0)
        (lost, otherwise) = self.consumer.asked("SELECT lost_in_takeovers, lost_otherwise FROM cameras")[0]
        self.assertGreaterEqual(lost, FPS, "it was nobody's for more than a second")
        self.assertEqual(lost + otherwise, self.missing())
        self.assert_one_owner()
        print(f"{lost} frames of {FPS} a second were lost in the takeover")

    def test_one_that_never_lets_go_is_not_heard(self) -> None:  # proves R216, C45
        former = self.start(camera("cam-1", token=1, until=boottime() + 2), MISBEHAVE="never-let-go")
        self.accepts(1)
        self.start(camera("cam-1", token=2), runner="runner-b")
        self.accepts(2)
        stale = self.consumer.refused("stale")
        wait_for("the former owner goes on and is refused", lambda: self.consumer.refused("stale") >= stale + 10)
        self.accepts(2, more=10)
        self.assertIsNone(former.process.poll())
        self.assert_one_owner()

    def test_nothing_is_lost_or_doubled_when_the_line_to_the_broker_breaks(self) -> None:  # proves R227, C46
        shard = self.start(camera("cam-1"))
        self.accepts(1, more=10)
        # What was sent arrives, and the worker does not learn of it.
        self.line.deaf = True

        def waits_for_a_confirmation() -> bool:
            before = shard.figure("events_confirmed_total")
            time.sleep(0.5)
            return shard.figure("events_confirmed_total") == before < len(self.consumer.accepted())

        wait_for("an event has arrived that is not confirmed", waits_for_a_confirmation)
        self.line.cut()
        wait_for("the worker notices", lambda: shard.logged("publish_failed") == 1)
        self.line.mend()
        wait_for("it is confirmed again", lambda: shard.logged("publish_works") == 1)
        self.accepts(1, more=10)
        shard.tell(signal.SIGTERM)
        self.assertEqual(shard.ends(), 0)
        wait_for("everything has come", lambda: len(self.consumer.accepted()) == self.filmed(shard))
        summary = self.consumer.ends()
        self.assertGreaterEqual(summary["refused"]["duplicate"], 1, "it was sent again, and that was noticed")
        self.assert_one_owner()

    def filmed(self, shard: Shard) -> int:
        """Frames that the worker made events of; it says so in the end. On a busy machine it skips some, which nobody waits for."""
        return sum(json.loads(line).get("frames", 0) for line in shard.log().splitlines() if '"camera_stopped"' in line)

    def test_what_waits_for_a_broker_is_given_up_when_trust_ends(self) -> None:  # proves C45, C52
        shard = self.start(camera("cam-1", until=boottime() + 4))
        self.accepts(1, more=5)
        self.line.cut()
        wait_for("the deadline passes", lambda: shard.logged("camera_stopped") == 1)
        before = len(self.consumer.accepted())
        self.line.mend()
        wait_for("it is given up", lambda: shard.figure('events_dropped_total{reason="trust_ended"}') > 0)
        shard.tell(signal.SIGTERM)
        self.assertEqual(shard.ends(), 0)
        self.assertEqual(len(self.consumer.accepted()), before)

    def test_a_camera_is_let_go_though_the_broker_is_away(self) -> None:  # proves R218
        # What is queued could be sent for much longer than the camera can be trusted.
        until = boottime() + 12
        shard = self.start(camera("cam-1", until=until), FLUSH="60")
        self.accepts(1)
        self.line.cut()
        told = shard.assign()
        wait_for("it says so all the same", lambda: shard.applied(told))
        self.assertLess(boottime(), until, "in time")
        before = len(self.consumer.accepted())
        self.line.mend()
        shard.tell(signal.SIGTERM)
        self.assertEqual(shard.ends(), 0)
        self.assertEqual(len(self.consumer.accepted()), before, "nothing comes after its word")

    def test_a_planned_move_sends_what_is_queued_first(self) -> None:  # proves R227, C46
        one = self.start(camera("cam-1", token=1))
        two = self.start(runner="runner-b")
        wait_for("the other one is ready", lambda: "READY=1" in two.heard)
        self.accepts(1, more=10)
        told = one.assign()
        one.tell(signal.SIGHUP)
        wait_for("it has let go", lambda: one.applied(told))
        two.assign(camera("cam-1", token=2))
        two.tell(signal.SIGHUP)
        self.accepts(2, more=10)
        self.assertEqual(self.consumer.refused("stale"), 0, "nothing of the former owner came late")
        self.assertEqual(one.logged("publish_failed"), 0)
        self.assert_one_owner()

    def test_a_consumer_that_is_killed_goes_on_where_it_was(self) -> None:  # proves C46
        shard = self.start(camera("cam-1"))
        for _ in range(2):
            self.accepts(1, more=10)
            self.consumer.kill()
            self.consumer.start()
        self.accepts(1, more=10)
        shard.tell(signal.SIGTERM)
        self.assertEqual(shard.ends(), 0)
        wait_for("everything has come", lambda: len(self.consumer.accepted()) == self.filmed(shard))
        self.assert_one_owner()

    def test_nonsense_on_the_wire_harms_nobody(self) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(URL))
        self.addCleanup(connection.close)
        for body in (b"", b"[]", b'{"event_id": 1}'):
            connection.channel().basic_publish(self.name, "detection.t.s.c", body)
        self.start(camera("cam-1"))
        self.accepts(1, more=5)
        self.assertEqual(self.consumer.refused("malformed"), 3)


if __name__ == "__main__":
    unittest.main()
