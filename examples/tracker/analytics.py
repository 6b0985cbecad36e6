"""A stand-in for Analytics: takes scenes' messages, before or behind the fence, and remembers them.

Behind `leasehold fence mqtt` it needs not a line of code about tokens: what it hears was sent by the current holder.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any

import paho.mqtt.client as mqtt

RAW = "scenescape/data/scene/+/+"
"""What trackers publish."""
REGULATED = "scenescape/regulated/scene/+"
"""What the fence passes on."""


@dataclass(frozen=True)
class Heard:
    """A message: of which scene, under which token, of which moment."""

    scene: str
    token: int
    timestamp: str


class Analytics:
    """Listens to a topic tree."""

    def __init__(self, port: int, topics: str) -> None:
        self._lock = threading.Lock()
        self._heard: list[Heard] = []
        kind = [mqtt.CallbackAPIVersion.VERSION1] if hasattr(mqtt, "CallbackAPIVersion") else []
        self._client = mqtt.Client(*kind)
        self._ready = threading.Event()
        self._client.on_connect = lambda client, *_: client.subscribe(topics, qos=1)
        self._client.on_subscribe = lambda *_: self._ready.set()
        self._client.on_message = self._take
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        if not self._ready.wait(30):
            raise TimeoutError("the broker does not let us listen")

    def close(self) -> None:
        """Ends it."""
        self._client.disconnect()
        self._client.loop_stop()

    def _take(self, _client: Any, _data: Any, message: mqtt.MQTTMessage) -> None:
        said = json.loads(message.payload)
        with self._lock:
            self._heard.append(Heard(said["scene_id"], said["_version"], said["timestamp"]))

    def heard(self) -> list[Heard]:
        """Everything so far, in the order in which it came."""
        with self._lock:
            return list(self._heard)
