"""Several trackers, one broker, one control plane, and what can happen to them. `MQTT_PORT` says where the broker is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections import Counter
from pathlib import Path

from judge import Judge
from leasehold import Client
from stand_ins import Server, free_port, wait_for

SCENES = [f"scene-{number}" for number in range(8)]
LEASE = {"TTL": "6", "RENEW": "1.5", "SCAN": "1", "TIMEOUT": "2"}


class Tracker:
    """A tracker's process."""

    def __init__(self, name: str, server: Server, directory: str) -> None:
        self.name = name
        self._log = Path(directory, name)
        self._env = {
            **os.environ,
            **{f"TRACKER_LEASE_{key}": value for key, value in LEASE.items()},
            "TRACKER_NAME": name,
            "TRACKER_MANAGER_URL": server.url,
            "TRACKER_MANAGER_CREDENTIALS": f"{directory}/credentials",
            "TRACKER_MQTT_PORT": os.environ["MQTT_PORT"],
            "TRACKER_HEALTH_PORT": str(free_port()),
        }
        with self._log.open("w") as log:
            self._process = subprocess.Popen([sys.executable, "-m", "tracker"], env=self._env, stdout=log, stderr=log)

    def tell(self, told: signal.Signals) -> None:
        self._process.send_signal(told)

    def ends(self) -> int:
        return self._process.wait(60)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def said(self, operation: str) -> int:
        """How many lines of its log are about this operation."""
        lines = self._log.read_text().splitlines()
        return sum(json.loads(line).get("operation") == operation for line in lines if line.startswith("{"))

    def is_ready(self) -> bool:
        command = [sys.executable, "-m", "tracker", "healthcheck"]
        return subprocess.run(command, env=self._env, capture_output=True).returncode == 0


class Together(unittest.TestCase):
    def setUp(self) -> None:
        # Trackers have no more rights than they need.
        self.server = Server("operator")
        self.addCleanup(self.server.close)
        self.client = Client(self.server.url, api_key=self.server.keys["operator"])
        self._directory = self.enterContext(tempfile.TemporaryDirectory())
        credentials = {"user": "tracker", "password": self.server.key("member", "--pool", "scenes")}
        Path(self._directory, "credentials").write_text(json.dumps(credentials))
        cameras = {scene: f"{self._testMethodName}-{scene}" for scene in SCENES}
        for scene, camera in cameras.items():
            self.client.put("scenes", scene, document={"name": scene, "cameras": [camera]})
        self.judge = Judge(int(os.environ["MQTT_PORT"]), list(cameras.values()))
        self.addCleanup(self.judge.close)

    def start(self, *names: str) -> list[Tracker]:
        trackers = [Tracker(name, self.server, self._directory) for name in names]
        for tracker in trackers:
            self.addCleanup(tracker.close)
        return trackers

    def leases(self) -> list[tuple[str, str, int]]:
        """Every lease: the tracker's name, the scene, and the token."""
        leased = self.client.list("scenes", leased=True)
        return [((each.holder_id or "").rsplit("-", 2)[0], each.id, each.token) for each in leased]

    def holders(self) -> set[str]:
        """The trackers that hold scenes."""
        return {name for name, _, _ in self.leases()}

    def wait_until_held_by(self, *counts: int) -> None:
        """Waits until so many scenes are held by so many trackers, and each of them is published under its newest token."""
        before: dict[tuple[str, int], int] = {}

        def are_held() -> bool:
            leases = self.leases()
            terms = [(scene, token) for _, scene, token in leases]
            # A slow machine may lose a lease meanwhile: then the next term has to be published.
            goes_on = [self.judge.counts[term] > before.setdefault(term, self.judge.counts[term]) for term in terms]
            held = Counter(name for name, _, _ in leases)
            return sorted(held.values()) == sorted(counts) and all(goes_on)

        wait_for(f"scenes are held {counts}, and every one is published", are_held)

    def test_scenes_move_when_trackers_come_die_and_go(self) -> None:  # proves R030, R033-R036, C06, C10
        one, two = self.start("one", "two")
        self.wait_until_held_by(4, 4)
        (three,) = self.start("three")
        self.wait_until_held_by(3, 3, 2)
        tokens = dict(self.judge.newest)

        # The server restarts while they work.
        self.server.kill()
        self.server.start()
        self.wait_until_held_by(3, 3, 2)

        one.tell(signal.SIGKILL)
        began = time.monotonic()
        wait_for("the dead one's scenes are held", lambda: self.holders() == {"two", "three"})
        self.wait_until_held_by(4, 4)
        took = time.monotonic() - began
        self.assertGreater(sum(self.judge.newest.values()), sum(tokens.values()))

        two.tell(signal.SIGTERM)
        began = time.monotonic()
        self.assertEqual(two.ends(), 0)
        self.wait_until_held_by(8)
        print(f"taken over {took:.1f} s after a kill, {time.monotonic() - began:.1f} s after a goodbye; TTL {LEASE['TTL']} s")
        self.assertEqual(three.said("takeover"), three.said("stop") + 8)
        self.assertEqual((self.judge.doubles, self.judge.stale), ([], []))

    def test_one_that_stood_still_stops_and_is_refused(self) -> None:  # proves R032, R037, R038, R042
        sleeper, other = self.start("sleeper", "other")
        self.wait_until_held_by(4, 4)
        stopped = sleeper.said("stop")
        sleeper.tell(signal.SIGSTOP)
        self.wait_until_held_by(8)
        self.assertEqual(self.holders(), {"other"})
        sleeper.tell(signal.SIGCONT)
        wait_for("it stops its four scenes", lambda: sleeper.said("stop") >= stopped + 4)
        self.wait_until_held_by(4, 4)
        self.assertEqual(self.judge.doubles, [])
        # Whatever it still sent can be told from what counts: each has a lower token.
        self.assertTrue(all(token < newest for _, token, newest in self.judge.stale))

    def test_without_a_manager_a_tracker_is_idle_until_it_returns(self) -> None:  # proves R045, R047, U04
        (only,) = self.start("only")
        self.wait_until_held_by(8)
        tokens = dict(self.judge.newest)
        self.server.kill()
        wait_for("it stops all scenes", lambda: only.said("stop") == only.said("takeover"))
        # What it had sent before may still be on its way.
        wait_for("nothing is published any more", lambda: self.judge.is_silent(for_s=1))
        self.assertTrue(only.is_ready(), "idle is ready")
        (late,) = self.start("late")
        wait_for("a tracker that starts now asks again and again", lambda: late.said("look") >= 3)
        self.assertFalse(late.is_ready())
        self.server.start()
        self.wait_until_held_by(4, 4)
        self.assertTrue(all(self.judge.newest[scene] > tokens[scene] for scene in SCENES))
        self.assertEqual((self.judge.doubles, self.judge.stale), ([], []))
        self.assertTrue(late.is_ready())


if __name__ == "__main__":
    unittest.main()
