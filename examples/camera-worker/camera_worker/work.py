"""The work on one camera, from its start until it is taken away or its deadline passes, whichever comes first."""

from __future__ import annotations

import math
import threading
import time

from . import settings as manners
from .assignment import Camera
from .clock import boottime, iso
from .frames import Film
from .log import Log
from .outbox import Letter, Outbox
from .settings import Settings
from .ulid import Ulids
from .zones import detections

TURN = 0.25
"""The longest, in seconds, that nothing is looked at: a deadline, or that it is to stop."""


class Work:
    """One camera under one term. A new document or deadline is `update`; another token is other work."""

    def __init__(
        self, camera: Camera, who: dict[str, object], settings: Settings, film: Film, outbox: Outbox, ulids: Ulids, log: Log
    ) -> None:
        self.camera = camera
        self.frames = 0
        self.skipped = 0
        """Frames that went by while this process was too slow, or stood still."""
        self.turned = boottime()
        """When it last looked at anything."""
        self.failure: Exception | None = None
        self._who = who
        self._fps = settings.fps
        self._clings = settings.misbehave
        self._film = film
        self._outbox = outbox
        self._ulids = ulids
        term = camera.term
        self._log = log.of(tenant_id=camera.tenant, site_id=camera.site, camera_uuid=term.camera)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=term.camera, daemon=True)
        self._log.info("camera_started", "work begins", lease_id=term.lease, fencing_token=term.token)
        self._thread.start()

    def update(self, camera: Camera) -> None:
        """Another deadline, or another document: from the next frame on."""
        if camera.document != self.camera.document:
            self._log.info("camera_updated", "the camera's document has changed", zones=len(camera.document.get("zones") or []))
        self.camera = camera

    @property
    def manners(self) -> frozenset[str]:
        """How this camera makes its worker misbehave, once it has shown a frame."""
        return manners.of_camera(self.camera.document) if self.frames else frozenset()

    @property
    def clings(self) -> bool:
        """Whether it never lets go, for tests of those who must cope with that."""
        return "never-let-go" in self._clings | manners.of_camera(self.camera.document)

    def trusted(self) -> bool:
        """Whether the camera is still ours."""
        return boottime() < self.camera.trusted_until or self.clings

    @property
    def running(self) -> bool:
        """Whether the work goes on."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Says that it is to end."""
        if not self.clings:
            self._stop.set()

    def _run(self) -> None:
        try:
            why = self._film_it()
            self._log.info("camera_stopped", f"work ends: {why}", frames=self.frames, skipped=self.skipped)
        except Exception as error:
            # One camera's mistake must not go unnoticed: the worker ends with it, and its manager counts.
            self.failure = error

    def _film_it(self) -> str:
        # The time of day is read once: a clock that is set does not make frames come twice.
        began, began_at = boottime(), time.time()
        number = math.floor(began_at * self._fps) + 1
        while not self._stop.is_set():
            self.turned = now = boottime()
            if not self.trusted():
                return "the deadline has passed"
            wait = began + number / self._fps - began_at - now
            if wait > 0:
                self._stop.wait(min(wait, TURN, max(self.camera.trusted_until - now, 0.001)))
                continue
            newest = math.floor((began_at + now - began) * self._fps)
            self.skipped += newest - number
            self._process(newest)
            number = newest + 1
        return "it was taken away"

    def _process(self, number: int) -> None:
        camera = self.camera
        event = {
            "event_id": self._ulids.next(),
            "camera_uuid": camera.term.camera,
            "fencing_token": camera.term.token,
            "degraded": camera.degraded,
            "frame": number,
            "timestamp": iso(number / self._fps),
            **self._who,
            "detections": detections(self._film.frame(number), camera.document),
        }
        # A routing key is at most 255 bytes long.
        key = f"detection.{camera.tenant}.{camera.site}.{camera.term.camera}"[:255]
        self._outbox.put(Letter(camera.term, self.trusted, key, event))
        self.frames += 1
