"""A tracker that stands still with messages in its hands, another that takes over, and Analytics behind the fence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request
from pathlib import Path

import paho.mqtt.client as mqtt
from analytics import RAW, REGULATED, Analytics, Heard
from leasehold import Client
from stand_ins import Server, free_port, wait_for

SCENES = [f"scene-{number}" for number in range(4)]
# It believes that it holds what it held, as every program does that was stopped between its check and its write, and never hears
# that it should stop.
CARELESS = """
import sys, leasehold, tracker.scene
leasehold.Lease.held = property(lambda self: True)
tracker.scene.Work.stop = lambda self, why: None
from tracker.__main__ import main
sys.exit(main())
"""


class Cameras:
    """Sees something in every scene, all the time. No two messages are the same."""

    def __init__(self, port: int) -> None:
        kind = [mqtt.CallbackAPIVersion.VERSION1] if hasattr(mqtt, "CallbackAPIVersion") else []
        self._client = mqtt.Client(*kind)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._film, daemon=True)
        self._thread.start()

    def _film(self) -> None:
        number = 0
        while not self._stop.wait(0.05):
            number += 1
            seen = json.dumps({"timestamp": f"moment-{number}", "objects": {"person": [{}]}})
            for scene in SCENES:
                self._client.publish(f"scenescape/data/camera/of-{scene}", seen, qos=1)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._client.disconnect()
        self._client.loop_stop()


class Fence(unittest.TestCase):
    def setUp(self) -> None:
        self.port = int(os.environ["MQTT_PORT"])
        self.server = Server()
        self.addCleanup(self.server.close)
        self.client = Client(self.server.url)
        self._directory = self.enterContext(tempfile.TemporaryDirectory())
        for scene in SCENES:
            self.client.put("scenes", scene, document={"name": scene, "cameras": [f"of-{scene}"]})

    def start(self, name: str, *command: str, **env: str) -> subprocess.Popen[bytes]:
        with Path(self._directory, name).open("w") as log:
            process = subprocess.Popen(command, env={**os.environ, **env}, stdout=log, stderr=log)

        def end() -> None:
            process.kill()
            process.wait()

        self.addCleanup(end)
        return process

    def tracker(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        lease = {"TTL": "4", "RENEW": "1", "SCAN": "1", "TIMEOUT": "1"}
        env = {f"TRACKER_LEASE_{key}": value for key, value in lease.items()}
        return self.start(
            name,
            sys.executable,
            *command,
            TRACKER_NAME=name,
            TRACKER_MANAGER_URL=self.server.url,
            TRACKER_MQTT_PORT=str(self.port),
            TRACKER_HEALTH_PORT=str(free_port()),
            **env,
        )

    def refused(self, port: int, reason: str) -> int:
        page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30).read().decode()
        series = f'leasehold_fence_refused_total{{reason="{reason}"}} '
        return sum(int(line.removeprefix(series)) for line in page.splitlines() if line.startswith(series))

    def tokens(self, holder: str) -> dict[str, int] | None:
        """The tokens of all scenes, if they are all held by this tracker."""
        leases = self.client.list("scenes", leased=True)
        held = [each for each in leases if (each.holder_id or "").startswith(f"{holder}-")]
        return {each.id: each.token for each in held} if len(held) == len(SCENES) else None

    def test_not_one_stale_message_arrives_and_not_one_current_message_is_lost(self) -> None:  # proves R038, R040, R042, C08, U02
        health = free_port()
        command = [os.environ["LEASEHOLD_BIN"], "fence", "mqtt", "--store", self.server.url, "--health", f"127.0.0.1:{health}"]
        self.start("fence", *command, "--broker", f"mqtt://127.0.0.1:{self.port}")

        def ready() -> bool:
            try:
                return bool(urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=30).status == 200)
            except OSError:
                return False

        wait_for("the fence is ready", ready)
        raw, regulated = Analytics(self.port, RAW), Analytics(self.port, REGULATED)
        self.addCleanup(raw.close)
        self.addCleanup(regulated.close)
        cameras = Cameras(self.port)
        sleeper = self.tracker("sleeper", "-c", CARELESS)
        wait_for("one tracker has everything", lambda: self.tokens("sleeper"))
        old = self.tokens("sleeper") or {}
        current = lambda tokens: [each for each in raw.heard() if each.token == tokens[each.scene]]  # noqa: E731
        wait_for("it tracks", lambda: len(current(old)) > 40)

        # It stands still, past its TTL, while cameras go on sending to it; another takes over.
        sleeper.send_signal(signal.SIGSTOP)
        other = self.tracker("other", "-m", "tracker")
        wait_for("another has everything", lambda: self.tokens("other"))
        new = self.tokens("other") or {}
        wait_for("the other tracks", lambda: {each.scene for each in current(new)} == set(SCENES))
        before = len(raw.heard())

        # It goes on with what it had in its hands.
        sleeper.send_signal(signal.SIGCONT)
        wait_for("it sends what is stale", lambda: any(each.token == old[each.scene] for each in raw.heard()[before:]))
        wait_for("that is refused", lambda: self.refused(health, "stale") > 0)
        sleeper.kill()
        sent = len(current(new))
        wait_for("the other goes on", lambda: len(current(new)) > sent + 20)
        cameras.close()
        other.kill()
        stale = [each for each in raw.heard()[before:] if each.token == old[each.scene]]
        wanted = {each for tokens in (old, new) for each in current(tokens)} - set(stale)
        wait_for("everything that was current has arrived", lambda: wanted <= set(regulated.heard()))

        behind: list[Heard] = regulated.heard()
        self.assertEqual(set(behind) & set(stale), set(), "stale messages arrived")
        newest: dict[str, int] = {}
        for each in behind:
            self.assertGreaterEqual(each.token, newest.get(each.scene, 0), f"{each} came after a newer term")
            newest[each.scene] = each.token
        print(f"{len(wanted)} current messages arrived, {len(stale)} stale ones did not")


if __name__ == "__main__":
    unittest.main()
