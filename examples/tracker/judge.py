"""For tests: cameras that see something all the time, and a judge of what trackers publish."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from typing import Any

import paho.mqtt.client as mqtt


class Judge:
    """Listens to every scene as a consumer does and remembers who published under which token."""

    def __init__(self, port: int, cameras: list[str]) -> None:
        self._cameras = cameras
        self._lock = threading.Lock()
        self.newest: dict[str, int] = {}
        """The highest token of each scene so far."""
        self.counts: dict[tuple[str, int], int] = defaultdict(int)
        """How many messages there were of a scene under a token."""
        self.stale: list[tuple[str, int, int]] = []
        """Messages under a token that was not the newest any more: scene, token, newest. A consumer refuses them."""
        self.doubles: list[str] = []
        """Scenes that two published under the same token, which must never be."""
        self._terms: dict[tuple[str, int], str] = {}
        self._stop = threading.Event()
        kind = [mqtt.CallbackAPIVersion.VERSION1] if hasattr(mqtt, "CallbackAPIVersion") else []
        self._client = mqtt.Client(*kind)
        self._client.on_connect = lambda client, *_: client.subscribe("scenescape/data/scene/#", qos=1)
        self._client.on_message = self._judge
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        threading.Thread(target=self._film, daemon=True).start()

    def close(self) -> None:
        """Ends it."""
        self._stop.set()
        self._client.disconnect()
        self._client.loop_stop()

    def _film(self) -> None:
        while not self._stop.wait(0.1):
            for camera in self._cameras:
                self._client.publish(f"scenescape/data/camera/{camera}", json.dumps({"id": camera, "objects": {"person": [{}]}}))

    def _judge(self, _client: Any, _data: Any, message: mqtt.MQTTMessage) -> None:
        said = json.loads(message.payload)
        scene, token = said["scene_id"], said["_version"]
        # No two terms of trackers have the same beginning of their track ids.
        term = said["objects"][0]["id"].split("-")[0]
        with self._lock:
            if token < self.newest.get(scene, 0):
                self.stale.append((scene, token, self.newest[scene]))
            self.newest[scene] = max(token, self.newest.get(scene, 0))
            self.counts[scene, token] += 1
            if self._terms.setdefault((scene, token), term) != term:
                self.doubles.append(scene)

    def is_silent(self, for_s: float) -> bool:
        """Whether no message arrives for so long."""
        before = self._total()
        return not self._stop.wait(for_s) and self._total() == before

    def _total(self) -> int:
        with self._lock:
            return sum(self.counts.values())
