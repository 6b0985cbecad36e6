"""What a worker is told by its environment, and by the address of a camera; the rest is in the manager's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

BAD_MANNERS = ("babble", "crash", "hang", "ignore-sigterm", "leak-children", "never-let-go")


class SettingsError(Exception):
    """The environment or an address cannot be used."""


@dataclass(frozen=True)
class Settings:
    """Everything that is not the manager's to say."""

    fps: float = 5.0
    """Frames a second, of every camera."""
    frames: str = ""
    """A file with frames, one JSON object a line; without it there is a test pattern."""
    amqp_url: str = ""
    """Where RabbitMQ is; without it events go to standard output."""
    exchange: str = "detections"
    queue_max: int = 1000
    """The most events that wait to be sent; beyond it the oldest are dropped, and counted."""
    flush: float = 2.0
    """For how long, in seconds, what is queued is still sent when a camera or the whole worker is told to stop."""
    misbehave: frozenset[str] = frozenset()


def load(env: Mapping[str, str]) -> Settings:
    """Reads `CAMERA_WORKER_*`."""

    def word(name: str, default: str) -> str:
        return env.get(f"CAMERA_WORKER_{name}", default)

    def number(name: str, default: float, least: float, most: float) -> float:
        given = word(name, str(default))
        try:
            value = float(given)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise SettingsError(f"CAMERA_WORKER_{name} is {given!r}; it is a number from {least:g} to {most:g}")
        return value

    # An address has a password in it: it may be kept in a file instead.
    url, file = word("AMQP_URL", ""), word("AMQP_URL_FILE", "")
    if url and file:
        raise SettingsError("both CAMERA_WORKER_AMQP_URL and CAMERA_WORKER_AMQP_URL_FILE are given; leave one out")
    if file:
        try:
            with open(file, encoding="utf-8") as opened:
                url = opened.read(4096).strip()
        except OSError as error:
            raise SettingsError(f"CAMERA_WORKER_AMQP_URL_FILE: {file} cannot be read: {error.strerror}") from error
    if (url or file) and urlsplit(url).scheme not in ("amqp", "amqps"):
        raise SettingsError("the address of RabbitMQ does not begin with amqp:// or amqps://")
    return Settings(
        fps=number("FPS", Settings.fps, 0.1, 120),
        frames=word("FRAMES", ""),
        amqp_url=url,
        exchange=word("EXCHANGE", Settings.exchange),
        queue_max=int(number("QUEUE_MAX", Settings.queue_max, 1, 1_000_000)),
        flush=number("FLUSH", Settings.flush, 0, 60),
        misbehave=manners(word("MISBEHAVE", "")),
    )


def manners(listed: str) -> frozenset[str]:
    """Reads a list such as `crash,ignore-sigterm`."""
    found = frozenset(each.strip() for each in listed.split(",") if each.strip())
    if unknown := sorted(found - set(BAD_MANNERS)):
        raise SettingsError(f"no worker can {', '.join(unknown)}; known are {', '.join(BAD_MANNERS)}")
    return found


def of_camera(document: Mapping[str, Any]) -> frozenset[str]:
    """How a camera makes its worker misbehave: `rtsp://test-pattern/?misbehave=crash`. What cannot be read is ignored: cameras
    have addresses of their own making."""
    try:
        asked = parse_qs(urlsplit(str(document.get("rtsp_url", ""))).query).get("misbehave", [])
        return manners(",".join(asked))
    except (SettingsError, ValueError):
        return frozenset()
