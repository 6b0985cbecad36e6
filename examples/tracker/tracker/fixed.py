"""Scenes that are assigned, by a file or by the Manager: no leases, no failover."""

from __future__ import annotations

import json

from leasehold import Client

from . import manager
from .bus import Bus
from .config import Config, ConfigError
from .log import Log
from .scene import PLAIN, Scene, Work


class FixedScenes:
    """The scenes that somebody gave to this tracker."""

    def __init__(self, client: Client, bus: Bus, config: Config, log: Log) -> None:
        self._client = client
        self._bus = bus
        self._config = config
        self._log = log.of(component="assignment")
        self._works: dict[Scene, Work] = {}
        given = config.scenes
        self._written = from_file(given.file) if given.source == "file" else None

    def look(self) -> float:
        """One pass: tracks what is assigned at present. Answers in how many seconds to look again."""
        wanted = manager.assigned(self._client, self._config.name) if self._written is None else self._written
        for scene in self._works.keys() - set(wanted):
            self._works.pop(scene).stop("it is not assigned to this tracker any more")
        for scene in wanted:
            if scene not in self._works:
                self._works[scene] = Work(scene, self._bus, self._log)
                self._works[scene].start()
        return self._config.lease.scan

    def failed(self) -> None:
        """What was assigned stays so while nobody says otherwise."""

    def leave(self) -> None:
        """Stops."""
        for work in self._works.values():
            work.stop("this tracker stops")


def from_file(path: str) -> list[Scene]:
    """Reads `{"scenes": [{"id": ..., "name": ..., "cameras": [...]}]}`."""
    try:
        with open(path, encoding="utf-8") as file:
            found = [Scene.of(str(each["id"]), each) for each in json.load(file)["scenes"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is no list of scenes: {error!r}") from error
    for scene in found:
        if not PLAIN.fullmatch(scene.id):
            raise ConfigError(f"{path}: {scene.id!r} cannot be the id of a scene; use letters, digits, '.', '_' and '-'")
    return found
