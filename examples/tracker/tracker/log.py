"""Log lines as JSON objects, one a line, on standard output."""

from __future__ import annotations

import json
import sys
import threading
from datetime import datetime, timezone
from typing import Any


def timestamp() -> str:
    """The time of day, for people."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Log:
    """Writes the lines of one component. What is given to `of` is in each of its lines."""

    _lock = threading.Lock()

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def of(self, **fields: Any) -> Log:
        """The same with more in each line."""
        return Log(**{**self._fields, **fields})

    def info(self, operation: str, msg: str, **fields: Any) -> None:
        """Something happened that belongs to ordinary life."""
        self._write("info", operation, msg, None, fields)

    def warn(self, operation: str, msg: str, error: BaseException | None = None, **fields: Any) -> None:
        """Something went wrong that is coped with."""
        self._write("warn", operation, msg, error, fields)

    def error(self, operation: str, msg: str, error: BaseException | None = None, **fields: Any) -> None:
        """Something is wrong that somebody has to see to."""
        self._write("error", operation, msg, error, fields)

    def _write(self, level: str, operation: str, msg: str, error: BaseException | None, fields: dict[str, Any]) -> None:
        line = {"timestamp": timestamp(), "level": level, "msg": msg, **self._fields, "operation": operation, **fields}
        if error is not None:
            line["error"] = {"type": type(error).__name__, "message": str(error)}
        with self._lock:
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()
