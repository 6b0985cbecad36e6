"""Log lines as JSON objects, one a line, on standard error; standard output may be where events go."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from .clock import iso


class Log:
    """Writes lines. What is given to `of` is in each of them."""

    _lock = threading.Lock()

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def of(self, **fields: Any) -> Log:
        """The same with more in each line."""
        return Log(**{**self._fields, **fields})

    def info(self, event: str, msg: str, **fields: Any) -> None:
        """Something happened that belongs to ordinary life."""
        self._write("info", event, msg, fields)

    def warn(self, event: str, msg: str, **fields: Any) -> None:
        """Something went wrong that is coped with."""
        self._write("warn", event, msg, fields)

    def error(self, event: str, msg: str, **fields: Any) -> None:
        """Something is wrong that somebody has to see to."""
        self._write("error", event, msg, fields)

    def _write(self, level: str, event: str, msg: str, fields: dict[str, Any]) -> None:
        line = {"ts": iso(time.time()), "level": level, **self._fields, "event": event, **fields, "msg": msg}
        with self._lock:
            try:
                print(json.dumps(line), file=sys.stderr, flush=True)
            except OSError:
                # Nobody reads any more. That is no reason to stop early, or late.
                pass
