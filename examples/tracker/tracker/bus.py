"""The MQTT side: which cameras are listened to, and what is published."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as mqtt

from .config import Mqtt
from .log import Log

CAMERAS = "scenescape/data/camera/"
SETTLE = 1.0
"""Seconds to wait for the broker's word that it has something. Who does not answer by then has lost the connection."""
Handler = Callable[[str, dict[str, Any]], None]


class Bus:
    """One connection to the broker, made again whenever it breaks."""

    def __init__(self, config: Mqtt, client_id: str, log: Log) -> None:
        self._log = log.of(component="mqtt")
        self._lock = threading.Lock()
        self._handlers: dict[str, list[Handler]] = defaultdict(list)
        # Version 2 of the library asks which kind of callbacks is meant; version 1 knows only that kind.
        kind = [mqtt.CallbackAPIVersion.VERSION1] if hasattr(mqtt, "CallbackAPIVersion") else []
        self._client = mqtt.Client(*kind, client_id=client_id)
        if config.cafile:
            self._client.tls_set(ca_certs=config.cafile)
        if config.credentials:
            with open(config.credentials, encoding="utf-8") as file:
                found = json.load(file)
            self._client.username_pw_set(found["user"], found["password"])
        self._last: mqtt.MQTTMessageInfo | None = None
        self._client.on_connect = self._connected
        self._client.on_disconnect = self._disconnected
        self._client.on_message = self._received
        self._client.reconnect_delay_set(min_delay=1, max_delay=10)
        self._client.connect_async(config.host, config.port, keepalive=10)

    def start(self) -> None:
        """Connects, now or as soon as the broker is there."""
        self._client.loop_start()

    def stop(self) -> None:
        """Sends what is under way and disconnects."""
        self._client.disconnect()
        self._client.loop_stop()

    @property
    def connected(self) -> bool:
        """Whether messages go through."""
        return bool(self._client.is_connected())

    def listen(self, camera: str, handler: Handler) -> None:
        """Hands a camera's messages to the handler. Several may listen to one camera."""
        with self._lock:
            self._handlers[camera].append(handler)
            if len(self._handlers[camera]) == 1:
                self._client.subscribe(CAMERAS + camera, qos=1)

    def forget(self, camera: str, handler: Handler) -> None:
        """Ends it."""
        with self._lock:
            if handler in self._handlers[camera]:
                self._handlers[camera].remove(handler)
            if not self._handlers[camera]:
                del self._handlers[camera]
                self._client.unsubscribe(CAMERAS + camera)

    def publish(self, topic: str, message: dict[str, Any]) -> None:
        """Publishes, unless there is no connection: what is late is of no use to anybody."""
        if self.connected:
            self._last = self._client.publish(topic, json.dumps(message), qos=1, retain=False)

    def settle(self) -> None:
        """Waits until the broker has what was published so far: nothing of it can arrive after what another one publishes then."""
        if self._last is not None:
            with contextlib.suppress(ValueError, RuntimeError):
                self._last.wait_for_publish(SETTLE)

    def _connected(self, client: mqtt.Client, _data: Any, _flags: Any, code: int) -> None:
        if code != 0:
            self._log.error("connect", f"the broker refuses us: {mqtt.connack_string(code)}")
            return
        with self._lock:
            for camera in self._handlers:
                client.subscribe(CAMERAS + camera, qos=1)
        self._log.info("connect", "connected to the broker")

    def _disconnected(self, _client: mqtt.Client, _data: Any, code: int) -> None:
        if code != 0:
            self._log.warn("disconnect", "the connection to the broker broke; connecting again")

    def _received(self, _client: mqtt.Client, _data: Any, message: mqtt.MQTTMessage) -> None:
        camera = message.topic.removeprefix(CAMERAS)
        with self._lock:
            handlers = list(self._handlers.get(camera, ()))
        try:
            parsed = json.loads(message.payload)
            if not isinstance(parsed, dict):
                raise ValueError("a camera's message is a JSON object")
            for handler in handlers:
                handler(camera, parsed)
        except (ValueError, TypeError, AttributeError) as error:
            self._log.warn("receive", f"a message of camera {camera} cannot be used", error)
