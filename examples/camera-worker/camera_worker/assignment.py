"""What the manager's file says: which cameras, under which tokens, until when."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

FORMAT = 1
FILE_MAX = 16 * 1024 * 1024


class AssignmentError(Exception):
    """The file cannot be used."""


@dataclass(frozen=True)
class Term:
    """One tenure of a camera. Another lease or another token is another term, even of the same camera."""

    camera: str
    lease: str
    token: int


@dataclass(frozen=True)
class Camera:
    """A camera as it was given to us."""

    term: Term
    tenant: str
    site: str
    trusted_until: float
    """On the clock of `boottime`: no work and no output from then on."""
    degraded: bool
    document: dict[str, Any]


@dataclass(frozen=True)
class Assignment:
    """One reading of the file."""

    generation: int
    heartbeat: float
    http_port: int
    metrics_port: int
    cameras: dict[Term, Camera]


def read(path: str) -> Assignment:
    """Reads the file."""
    try:
        with open(path, "rb") as file:
            raw = file.read(FILE_MAX + 1)
    except OSError as error:
        raise AssignmentError(f"{path} cannot be read: {error.strerror}") from error
    if len(raw) > FILE_MAX:
        raise AssignmentError(f"{path} is longer than {FILE_MAX} bytes")
    try:
        found = json.loads(raw)
    except ValueError as error:
        raise AssignmentError(f"{path} is not JSON: {error}") from error
    try:
        return parse(found)
    except AssignmentError as error:
        raise AssignmentError(f"{path}: {error}") from error


def parse(found: Any) -> Assignment:
    """Checks what was read. Fields that it does not know are for others."""
    if _field(found, "format", int) != FORMAT:
        raise AssignmentError(f"format {found['format']} is unknown; this worker reads format {FORMAT}")
    heartbeat = float(_field(found, "heartbeat_seconds", int, float))
    if not 0.1 <= heartbeat <= 3600:
        raise AssignmentError(f"heartbeat_seconds is {heartbeat}; it is from 0.1 to 3600")
    cameras = [_camera(each) for each in _field(found, "cameras", list)]
    uuids = [each.term.camera for each in cameras]
    if len(set(uuids)) < len(uuids):
        raise AssignmentError("a camera is listed twice")
    ports = [_field(found, name, int) for name in ("http_port", "metrics_port")]
    if any(not 0 <= port <= 65535 for port in ports):
        raise AssignmentError("http_port and metrics_port are from 0 to 65535")
    return Assignment(_field(found, "generation", int), heartbeat, ports[0], ports[1], {each.term: each for each in cameras})


def _camera(found: Any) -> Camera:
    document = _field(found, "document", dict)
    # Zones of the whole site hold for each of its cameras, besides its own.
    zones = [*(document.get("zones") or []), *(found.get("site_zones") or [])]
    term = Term(_field(found, "camera_uuid", str), _field(found, "lease_id", str), _field(found, "fencing_token", int))
    return Camera(
        term=term,
        tenant=_field(found, "tenant_id", str),
        site=_field(found, "site_id", str),
        trusted_until=float(_field(found, "trusted_until_boottime", int, float)),
        degraded=_field(found, "degraded", bool),
        document={**document, "zones": zones},
    )


def _field(found: Any, name: str, *kinds: type) -> Any:
    if not isinstance(found, dict):
        raise AssignmentError("an object was expected")
    if name not in found:
        raise AssignmentError(f"{name} is missing")
    value = found[name]
    # In Python true is a number as well.
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise AssignmentError(f"{name} is not of type {' or '.join(kind.__name__ for kind in kinds)}")
    return value


class File:
    """The manager's file, which is replaced whenever something changes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None

    def changed(self) -> Assignment | None:
        """What it says, if it is not the file that was seen before."""
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise AssignmentError(f"{self._path} cannot be read: {error.strerror}") from error
        mark = (found.st_ino, found.st_mtime_ns, found.st_size)
        if mark == self._seen:
            return None
        # Remembered before it is read: if it is replaced meanwhile it is read once more, not once less.
        self._seen = mark
        return read(self._path)
