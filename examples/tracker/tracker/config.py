"""What a tracker is set up with: a JSON file, and `TRACKER_*` in the environment over it."""

from __future__ import annotations

import dataclasses
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


class ConfigError(Exception):
    """The configuration cannot be used."""


@dataclass(frozen=True)
class Manager:
    """Where leases and scenes come from."""

    url: str = "http://127.0.0.1:7400"
    credentials: str = ""
    """A file `{"user": ..., "password": ...}`."""
    cafile: str = ""


@dataclass(frozen=True)
class Mqtt:
    """Where cameras' messages come from and scenes' messages go."""

    host: str = "127.0.0.1"
    port: int = 1883
    credentials: str = ""
    """A file `{"user": ..., "password": ...}`."""
    cafile: str = ""
    """With it, TLS is spoken."""


@dataclass(frozen=True)
class Scenes:
    """Which scenes are tracked."""

    source: str = "lease"
    """`file`: those in the file. `api`: those that the Manager lists for this tracker. `lease`: those it has leases of."""
    file: str = ""


@dataclass(frozen=True)
class Lease:
    """How leases are held, in seconds."""

    ttl: float = 30.0
    renew: float = 10.0
    scan: float = 5.0
    """How often free scenes are looked for."""
    capacity: int = 0
    """The most scenes that are held; 0 is no limit."""
    timeout: float = 2.0
    """How long one request may take."""
    attempts: int = 2
    """A renewal without an answer is given up after this many timeouts."""
    strict_first_failure: bool = False
    """Give a scene up at the first renewal that fails for whatever reason."""

    @property
    def budget(self) -> float:
        """How long a renewal is tried."""
        return 0.0 if self.strict_first_failure else self.attempts * self.timeout


@dataclass(frozen=True)
class Health:
    """Where health is asked for."""

    host: str = "127.0.0.1"
    port: int = 8080


@dataclass(frozen=True)
class Config:
    """All of it."""

    name: str = field(default_factory=socket.gethostname)
    """The stable name, for people: each start has an id of its own."""
    manager: Manager = Manager()
    mqtt: Mqtt = Mqtt()
    scenes: Scenes = Scenes()
    lease: Lease = Lease()
    health: Health = Health()


def load(path: str | None, environ: Mapping[str, str]) -> Config:
    """The configuration, checked."""
    found: Any = {}
    if path:
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from error
    config = _filled(Config(), found, "TRACKER", environ)
    _check(config)
    return config


def _filled(default: T, found: Any, name: str, environ: Mapping[str, str]) -> T:
    """The defaults, with what the file says over them, and what the environment says over that."""
    if not isinstance(found, dict):
        raise ConfigError(f"{name.lower()} is no object")
    fields = {each.name for each in dataclasses.fields(default)}  # type: ignore[arg-type]
    unknown = found.keys() - fields
    if unknown:
        raise ConfigError(f"{name.lower()} has no setting {', '.join(sorted(unknown))}")
    values: dict[str, Any] = {}
    for each in fields:
        before, variable = getattr(default, each), f"{name}_{each.upper()}"
        if dataclasses.is_dataclass(before):
            values[each] = _filled(before, found.get(each, {}), variable, environ)
            continue
        given = environ.get(variable, found.get(each, before))
        try:
            values[each] = _as(type(before), given)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{variable} is {given!r}, which is no {type(before).__name__}") from error
    return dataclasses.replace(default, **values)  # type: ignore[type-var]


def _as(kind: type, given: Any) -> Any:
    if kind is bool and isinstance(given, str):
        return bool(["false", "true"].index(given.lower()))
    if isinstance(given, bool) != (kind is bool):
        raise TypeError(given)
    return kind(given)


def _check(config: Config) -> None:
    lease = config.lease
    if config.scenes.source not in ("file", "api", "lease"):
        raise ConfigError(f"scenes.source is {config.scenes.source!r}; it is file, api or lease")
    if config.scenes.source == "file" and not config.scenes.file:
        raise ConfigError("scenes.source is file, but scenes.file does not say which")
    if not 0 < lease.timeout <= 3:
        raise ConfigError(f"lease.timeout is {lease.timeout} s; more than 3 s is too long for a lease that waits for it")
    if not 0 < lease.scan <= 5:
        raise ConfigError(f"lease.scan is {lease.scan} s; free scenes are looked for at least every 5 s")
    if lease.renew <= 0 or lease.renew + lease.budget >= lease.ttl:
        raise ConfigError(
            f"lease.renew ({lease.renew} s) and a renewal that fails ({lease.budget} s) do not fit into lease.ttl ({lease.ttl} s)"
        )
