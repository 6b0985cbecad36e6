"""Which trackers there are, so that each knows its fair share.

A tracker says that it is there by a lease of its own, in the pool `trackers`: a resource named like its id, with its
capacity as a label. Whoever dies loses it by itself. Where the Manager has no such pool, those count that hold scenes.
"""

from __future__ import annotations

import contextlib

from leasehold import Client, Forbidden, Held, Invalid, Lease, NotFound

from .config import Config
from .log import Log

POOL = "trackers"


class Presence:
    """This tracker among the others."""

    def __init__(self, client: Client, config: Config, holder: str, log: Log) -> None:
        self._client = client
        self._config = config
        self._holder = holder
        self._log = log.of(component="presence")
        self._lease: Lease | None = None
        self._possible = True
        self._unheld: set[str] = set()

    def trackers(self, holders: set[str]) -> dict[str, int]:
        """The ids of all trackers with their capacities; `holders` have scenes."""
        capacity = self._config.lease.capacity
        known = dict.fromkeys(holders | {self._holder}, capacity)
        if not self._possible:
            return known
        try:
            self._announce()
            listed = list(self._client.list(POOL))
        except (NotFound, Forbidden, Invalid) as error:
            if isinstance(error, NotFound) and error.error:
                raise  # Taken for dead by somebody who tidies, in the moment before the lease; the next pass tries again.
            self._possible = False
            self._log.warn("announce", "this Manager keeps no list of trackers; those that hold scenes are counted", error)
            return known
        there = {each.id: int(each.labels.get("capacity", 0)) for each in listed if each.holder_id}
        self._tidy({each.id for each in listed if not each.holder_id})
        return {self._holder: capacity, **there}

    def leave(self) -> None:
        """Is not there any more."""
        if self._lease is not None:
            self._lease.release()
            self._client.delete(POOL, self._holder)

    def _announce(self) -> None:
        if self._lease is not None and self._lease.held:
            return
        if self._lease is not None:
            self._lease.release()  # It was given up without an answer; the Manager may see it otherwise.
        lease = self._config.lease
        labels = {"name": self._config.name, "capacity": str(lease.capacity)}
        self._client.put(POOL, self._holder, labels=labels)
        with contextlib.suppress(Held):  # By ourselves, if an answer got lost: that runs out, and then there is a new one.
            self._lease = self._client.acquire(POOL, self._holder, holder=self._holder, ttl=lease.ttl, every=lease.renew)

    def _tidy(self, unheld: set[str]) -> None:
        """Removes those that died: whoever is seen twice without a lease does not come back under this id."""
        for id in unheld & self._unheld - {self._holder}:
            with contextlib.suppress(NotFound):  # Somebody else tidies too.
                self._client.delete(POOL, id)
        self._unheld = unheld
