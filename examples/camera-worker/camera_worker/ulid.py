"""Ids for events: a ULID is 48 bits of time and 80 of chance, in letters that sort as it was made."""

from __future__ import annotations

import secrets
import threading
import time

LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's: none of them looks like another."""


class Ulids:
    """Ids of which each is greater than the one before, also within a millisecond and when the clock is set back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> str:
        """A new one."""
        with self._lock:
            fresh = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
            same_millisecond = fresh >> 80 <= self._last >> 80
            self._last = self._last + 1 if same_millisecond else fresh
            return text(self._last)


def text(number: int) -> str:
    """The 26 letters of a ULID."""
    return "".join(LETTERS[number >> shift & 31] for shift in range(125, -1, -5))


def is_ulid(value: object) -> bool:
    """Whether this is one: 26 letters, of which the first is not above 7."""
    return isinstance(value, str) and len(value) == 26 and value[0] in LETTERS[:8] and set(value) <= set(LETTERS)
