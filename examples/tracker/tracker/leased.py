"""Scenes by leases: acquired until there are enough, given up when lost, released when there are too many."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from datetime import datetime, timezone

from leasehold import Client, Held, LeaseholdError, NotFound, Unavailable

from . import manager
from .bus import Bus
from .config import Config
from .log import Log
from .presence import Presence
from .scene import Work
from .share import shares


class LeasedScenes:
    """The scenes that this tracker has leases of."""

    def __init__(self, client: Client, bus: Bus, config: Config, holder: str, log: Log) -> None:
        self._client = client
        self._bus = bus
        self._config = config
        self._holder = holder
        self._log = log.of(component="leases")
        self._presence = Presence(client, config, holder, log)
        self._lock = threading.Lock()
        self._held: dict[str, Work] = {}
        self._unsure: dict[str, Work] = {}
        self._checked = False

    def look(self) -> float:
        """One pass: fits what is held to the fair share. Answers in how many seconds to look again."""
        if not self._checked:
            manager.check_leases(self._client)
            self._checked = True
        self._give_back()
        taken = [each for each in manager.scenes(self._client, leased=True) if not each.get("paused")]
        free = [each for each in manager.scenes(self._client, leased=False) if self._may_take(each)]
        trackers = self._presence.trackers({str(each["holder_id"]) for each in taken if each.get("holder_id")})
        share = shares(len(taken) + len(free), trackers)[self._holder]
        for id in self._ids()[share:]:
            self._release(id, f"others have room for it; {share} of {len(taken) + len(free)} scenes are our share")
        # Not all in the same order, or all would be after the same scene.
        random.shuffle(free)
        for each in free:
            if len(self._ids()) >= share:
                break
            self._acquire(manager.scene_id(each))
        return self._until_next(str(each.get("expires_at")) for each in taken if each.get("holder_id") != self._holder)

    def failed(self) -> None:
        """The last pass failed: another Manager may answer the next one."""
        self._checked = False

    def leave(self) -> None:
        """Releases everything."""
        for id in self._ids():
            self._release(id, "this tracker stops")
        try:
            self._presence.leave()
        except LeaseholdError as error:
            self._log.warn("leave", "the Manager does not know that this tracker stopped; it will notice", error)

    def _ids(self) -> list[str]:
        with self._lock:
            return list(self._held)

    @staticmethod
    def _may_take(listed: dict[str, object]) -> bool:
        return not (listed.get("paused") or listed.get("member") or listed.get("requires"))

    def _acquire(self, id: str) -> None:
        lease = self._config.lease
        try:
            taken = self._client.acquire(
                manager.POOL, id, holder=self._holder, ttl=lease.ttl, every=lease.renew, budget=lease.budget
            )
        except (Held, NotFound):
            return  # Somebody was faster, or it is gone.
        try:
            scene = manager.described(self._client, id)
        except LeaseholdError:
            taken.release()
            raise
        work = Work(scene, self._bus, self._log, taken)
        with self._lock:
            self._held[id] = work
        work.start()
        threading.Thread(target=self._watch, args=(work,), name=f"watch {id}", daemon=True).start()

    def _watch(self, work: Work) -> None:
        """Waits until the lease is lost, by whatever cause, and stops."""
        assert work.lease is not None
        work.lease.lost.wait()
        with self._lock:
            lost = self._held.get(work.scene.id) is work
            if lost:
                del self._held[work.scene.id]
                self._unsure[work.scene.id] = work
        if lost:
            work.stop(f"the lease is lost: {work.lease.reason or 'it ran out'}")

    def _release(self, id: str, why: str) -> None:
        with self._lock:
            work = self._held.pop(id, None)
        if work is None or work.lease is None:
            return
        work.stop(why)
        self._bus.settle()
        try:
            work.lease.release()
        except Unavailable as error:
            self._log.warn("release", "not released; it will run out", error, scene_id=id)

    def _give_back(self) -> None:
        """What was given up without an answer may still be ours in the Manager's eyes: it need not run out first."""
        with self._lock:
            unsure, self._unsure = self._unsure, {}
        for id, work in unsure.items():
            try:
                assert work.lease is not None
                work.lease.release()
            except LeaseholdError:
                with self._lock:
                    self._unsure.setdefault(id, work)
                raise

    def _until_next(self, foreign: Iterable[str]) -> float:
        """The pause between two looks; shorter if a lease of somebody else is about to run out."""
        pause = self._config.lease.scan
        for expires in foreign:
            try:
                left = (datetime.fromisoformat(expires) - datetime.now(timezone.utc)).total_seconds()
            except (ValueError, TypeError):
                continue  # It says nothing, or nothing about its zone.
            if 0 < left < pause:
                pause = left + 0.05
        return pause
