"""The work on one scene."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from leasehold import Lease

from .bus import Bus
from .log import Log, timestamp

PLAIN = re.compile(r"[A-Za-z0-9._-]+")
"""Ids that can be part of a topic."""


@dataclass(frozen=True)
class Scene:
    """A scene as its source describes it."""

    id: str
    name: str
    cameras: tuple[str, ...]

    @classmethod
    def of(cls, id: str, described: Any) -> Scene:
        """Reads `{"name": ..., "cameras": ["camera-1", {"uid": "camera-2"}]}`; all of it may be missing."""
        described = described if isinstance(described, dict) else {}
        cameras = [each.get("uid") if isinstance(each, dict) else each for each in described.get("cameras") or []]
        usable = tuple(each for each in cameras if isinstance(each, str) and PLAIN.fullmatch(each))
        return cls(id, str(described.get("name") or id), usable)


class Tracks:
    """A stand-in for a tracker's algorithm: it recognises an object by its camera and its place in the message.

    Track ids begin anew with every term, and no two terms share one.
    """

    def __init__(self) -> None:
        self._term = secrets.token_hex(4)
        self._ids: dict[tuple[str, str, int], str] = {}

    def track(self, camera: str, thing_type: str, seen: list[Any]) -> list[dict[str, Any]]:
        """What was seen, with track ids."""
        found = []
        for place, thing in enumerate(seen):
            key = (camera, thing_type, place)
            track = self._ids.setdefault(key, f"{self._term}-{len(self._ids) + 1}")
            found.append({**(thing if isinstance(thing, dict) else {}), "id": track, "type": thing_type})
        return found


class Work:
    """Tracks one scene from `start` to `stop`; with a lease, only for as long as that is held."""

    def __init__(self, scene: Scene, bus: Bus, log: Log, lease: Lease | None = None) -> None:
        self.scene = scene
        self.lease = lease
        self._bus = bus
        self._log = log.of(component="scene", scene_id=scene.id)
        self._tracks = Tracks()
        self._lock = threading.Lock()
        self._stopped = False
        # One object, so that it can be found again: methods are made anew whenever they are named.
        self._handler: Callable[[str, dict[str, Any]], None] = self._seen

    def start(self) -> None:
        """Listens to the scene's cameras."""
        version = {} if self.lease is None else {"version": self.lease.token, "holder_id": self.lease.holder}
        self._log.info("takeover", "tracking begins; track ids are assigned anew", **version)
        for camera in self.scene.cameras:
            self._bus.listen(camera, self._handler)

    def stop(self, why: str) -> None:
        """Listens no more. What comes after this is not published."""
        with self._lock:
            self._stopped = True
        for camera in self.scene.cameras:
            self._bus.forget(camera, self._handler)
        self._log.info("stop", f"tracking ends: {why}")

    def _seen(self, camera: str, message: dict[str, Any]) -> None:
        with self._lock:
            if not self._stopped:
                self._publish(camera, message)

    def _publish(self, camera: str, message: dict[str, Any]) -> None:
        objects = message.get("objects")
        by_type = objects if isinstance(objects, dict) else {"object": objects or []}
        for thing_type, seen in by_type.items():
            if not PLAIN.fullmatch(thing_type):
                continue
            found = self._tracks.track(camera, thing_type, seen)
            said = {
                "id": self.scene.id,
                "name": self.scene.name,
                "timestamp": message.get("timestamp") or timestamp(),
                "objects": found,
                "scene_id": self.scene.id,
            }
            if self.lease is not None:
                # Asked as late as possible: a process may have stood still since the message came.
                if not self.lease.held:
                    return
                said["_version"] = self.lease.token
            self._bus.publish(f"scenescape/data/scene/{self.scene.id}/{thing_type}", said)
