"""The two clocks: one that deadlines are told by, and one for people and for the numbers of frames."""

from __future__ import annotations

import time
from datetime import datetime, timezone


def boottime() -> float:
    """Seconds since this machine started, those that it slept through as well. Deadlines are on this clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def iso(seconds: float) -> str:
    """A time of day, in seconds since 1970, for people."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
