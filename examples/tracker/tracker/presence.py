"""Which trackers there are, so that each knows its fair share.

A tracker says that it is there by a session of its own in the scenes' pool, with its id and its capacity as labels.
Whoever dies loses it by itself. Where the Manager knows no sessions, those count that hold scenes.
"""

from __future__ import annotations

from leasehold import Client, Forbidden, Invalid, NotFound, Session

from .config import Config
from .log import Log
from .manager import POOL


class Presence:
    """This tracker among the others."""

    def __init__(self, client: Client, config: Config, holder: str, log: Log) -> None:
        self._client = client
        self._config = config
        self._holder = holder
        self._log = log.of(component="presence")
        self._session: Session | None = None
        self._possible = True

    def trackers(self, holders: set[str]) -> dict[str, int]:
        """The ids of all trackers with their capacities; `holders` have scenes."""
        capacity = self._config.lease.capacity
        if self._possible:
            try:
                return {self._holder: capacity, **self._there()}
            except (NotFound, Forbidden, Invalid) as error:
                self._possible = False
                self._log.warn("announce", "this Manager knows no sessions; trackers are those that hold scenes", error)
        return dict.fromkeys(holders | {self._holder}, capacity)

    def leave(self) -> None:
        """Is not there any more."""
        if self._session is not None:
            self._session.close()

    def _there(self) -> dict[str, int]:
        if self._session is None or self._session.lost.is_set():
            labels = {"tracker": self._holder, "capacity": str(self._config.lease.capacity)}
            self._session = self._client.session(POOL, name=self._config.name, ttl=self._config.lease.ttl, labels=labels)
        answer = self._client.request("POST", "/api/v1/store/sessions", {"pool": POOL, "since": "0"})
        labels_of = [each["profile"].get("labels", {}) for each in answer.value["value"]["items"] if not each["ended"]]
        return {labels["tracker"]: int(labels.get("capacity", 0)) for labels in labels_of if "tracker" in labels}
