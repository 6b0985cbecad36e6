"""What is accepted: each event once, and none under a token below the highest that its camera was seen with.

Invariant: an event, the highest token of its camera and what was refused are written in one transaction, before the broker is
told that it may forget the event. So a consumer that is killed goes on where it was: what comes again is a duplicate.
"""

from __future__ import annotations

import json
import sqlite3
import time
from typing import Any

SCHEMA = """
CREATE TABLE IF NOT EXISTS cameras (
    camera_uuid TEXT PRIMARY KEY,
    fencing_token INTEGER NOT NULL,
    runner_id TEXT NOT NULL,
    frame INTEGER NOT NULL,
    lost_in_takeovers INTEGER NOT NULL DEFAULT 0,
    lost_otherwise INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id TEXT NOT NULL UNIQUE,
    camera_uuid TEXT NOT NULL,
    fencing_token INTEGER NOT NULL,
    runner_id TEXT NOT NULL,
    shard_id TEXT NOT NULL,
    frame INTEGER NOT NULL,
    degraded INTEGER NOT NULL,
    timestamp TEXT NOT NULL,
    detections TEXT NOT NULL,
    arrived_at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS refused (
    camera_uuid TEXT NOT NULL,
    reason TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (camera_uuid, reason)
);
"""

FIELDS: dict[str, tuple[type, ...]] = {
    "event_id": (str,),
    "camera_uuid": (str,),
    "fencing_token": (int,),
    "degraded": (bool,),
    "frame": (int,),
    "timestamp": (str,),
    "runner_id": (str,),
    "shard_id": (int, str),
    "detections": (list,),
}

ACCEPTED, DUPLICATE, STALE, CONFLICT, MALFORMED = "accepted", "duplicate", "stale", "conflict", "malformed"


def parse(body: bytes) -> dict[str, Any] | None:
    """An event, if it is one."""
    try:
        found = json.loads(body)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None

    def fits(name: str, kinds: tuple[type, ...]) -> bool:
        value = found.get(name)
        # In Python true is a number as well, and SQLite has no numbers beyond 64 bits.
        if isinstance(value, bool):
            return bool in kinds
        return isinstance(value, kinds) and not (isinstance(value, int) and not 0 <= value < 1 << 63)

    return found if all(fits(name, kinds) for name, kinds in FIELDS.items()) else None


class Fence:
    """The memory of a consumer, in a SQLite file."""

    def __init__(self, path: str, keep: int = 100_000) -> None:
        self._db = sqlite3.connect(path)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.executescript(SCHEMA)
        self._keep = keep
        """The most events that are remembered: a duplicate of an older one is not noticed."""

    def take(self, body: bytes) -> str:
        """Judges a message and, if it is accepted, keeps it."""
        event = parse(body)
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            verdict = MALFORMED if event is None else self._judge(event)
            if verdict == ACCEPTED and event is not None:
                self._accept(event)
            else:
                camera = "" if event is None else event["camera_uuid"]
                counted = "INSERT INTO refused VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET count = count + 1"
                self._db.execute(counted, (camera, verdict))
        return verdict

    def _judge(self, event: dict[str, Any]) -> str:
        if self._db.execute("SELECT 1 FROM events WHERE event_id = ?", (event["event_id"],)).fetchone():
            return DUPLICATE
        known = self._known(event)
        if known is None or event["fencing_token"] > known[0]:
            return ACCEPTED
        if event["fencing_token"] < known[0]:
            return STALE
        # A token is granted once: nobody else can have it.
        return ACCEPTED if event["runner_id"] == known[1] else CONFLICT

    def _known(self, event: dict[str, Any]) -> tuple[int, str, int] | None:
        asked = "SELECT fencing_token, runner_id, frame FROM cameras WHERE camera_uuid = ?"
        found: tuple[int, str, int] | None = self._db.execute(asked, (event["camera_uuid"],)).fetchone()
        return found

    def _accept(self, event: dict[str, Any]) -> None:
        known = self._known(event)
        frame = event["frame"]
        # Frames are numbered by the camera, whoever works on it: what is missing in between was lost.
        missing = 0 if known is None else max(frame - known[2] - 1, 0)
        takeover = known is not None and event["fencing_token"] > known[0]
        self._db.execute(
            "INSERT INTO cameras VALUES (:camera, :token, :runner, :frame, :taken, :other) ON CONFLICT DO UPDATE SET"
            " fencing_token = :token, runner_id = :runner, frame = max(frame, :frame),"
            " lost_in_takeovers = lost_in_takeovers + :taken, lost_otherwise = lost_otherwise + :other",
            {
                "camera": event["camera_uuid"],
                "token": event["fencing_token"],
                "runner": event["runner_id"],
                "frame": frame,
                "taken": missing if takeover else 0,
                "other": 0 if takeover else missing,
            },
        )
        row = {
            **event,
            "shard_id": str(event["shard_id"]),
            "detections": json.dumps(event["detections"]),
            "arrived_at": time.time(),
        }
        columns = [*FIELDS, "arrived_at"]
        places = ", ".join(f":{name}" for name in columns)
        made = self._db.execute(f"INSERT INTO events ({', '.join(columns)}) VALUES ({places})", row)
        self._db.execute("DELETE FROM events WHERE number <= ?", ((made.lastrowid or 0) - self._keep,))

    def summary(self) -> dict[str, Any]:
        """Counts of everything so far."""
        accepted = self._db.execute("SELECT coalesce(max(number), 0) FROM events").fetchone()[0]
        lost = self._db.execute(
            "SELECT coalesce(sum(lost_in_takeovers), 0), coalesce(sum(lost_otherwise), 0) FROM cameras"
        ).fetchone()
        refused = dict(self._db.execute("SELECT reason, sum(count) FROM refused GROUP BY reason").fetchall())
        return {ACCEPTED: accepted, "refused": refused, "frames_lost": {"in_takeovers": int(lost[0]), "otherwise": int(lost[1])}}
