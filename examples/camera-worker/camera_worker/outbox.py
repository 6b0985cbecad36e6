"""Events on their way out: in order, each until it is confirmed, none after the trust in its camera has ended.

Invariant: whether the camera is still ours is asked before every attempt, when the connection is there and nothing but the
sending is left. What was under way when trust ended has a lower token than what the next owner sends; consumers refuse it.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .assignment import Term
from .log import Log
from .sinks import Sink, SinkError

PAUSE_MAX = 2.0
IDLE = 1.0


@dataclass(frozen=True)
class Letter:
    """An event, and who may still send it."""

    term: Term
    trusted: Callable[[], bool]
    key: str
    event: dict[str, Any]


class Outbox:
    """A bounded queue, and the one thread that sends from it."""

    def __init__(self, sink: Sink, queue_max: int, log: Log) -> None:
        self._sink = sink
        self._max = queue_max
        self._log = log
        self._queue: deque[Letter] = deque()
        self._sending: Letter | None = None
        self._change = threading.Condition()
        self.sent = 0
        self.dropped: Counter[str] = Counter({"queue_full": 0, "trust_ended": 0, "let_go": 0})
        """How many events were not sent, and why."""
        threading.Thread(target=self._run, name="outbox", daemon=True).start()

    def put(self, letter: Letter) -> None:
        """Takes an event in. If there are too many the oldest goes: it is of the least use to anybody."""
        with self._change:
            if len(self._queue) >= self._max:
                self._queue.popleft()
                self.dropped["queue_full"] += 1
            self._queue.append(letter)
            self._change.notify_all()

    def waiting(self, term: Term) -> int:
        """How many events of a term may still go out."""
        with self._change:
            sending = self._sending is not None and self._sending.term == term
            return sending + sum(letter.term == term for letter in self._queue)

    def discard(self, term: Term) -> None:
        """Sends nothing more of a term; what is being sent is not tried again."""
        with self._change:
            kept = [letter for letter in self._queue if letter.term != term]
            gone = len(self._queue) - len(kept)
            self._queue = deque(kept)
            if self._sending is not None and self._sending.term == term:
                self._sending = None
                gone += 1
            self.dropped["let_go"] += gone
            self._change.notify_all()

    def _run(self) -> None:
        failures = 0
        while True:
            letter = self._next()
            if letter is None:
                self._sink.idle()
                continue
            try:
                self._sink.open()
                if not self._may_send(letter):
                    continue
                self._sink.send(letter.key, letter.event)
            except SinkError as error:
                if failures == 0:
                    self._log.warn("publish_failed", f"{error}; trying again until trust ends", camera_uuid=letter.term.camera)
                failures += 1
                self._pause(letter, min(0.1 * 2.0 ** min(failures, 10), PAUSE_MAX))
                continue
            if failures:
                self._log.info("publish_works", f"events are confirmed again after {failures} failures")
                failures = 0
            with self._change:
                self.sent += 1
                if self._sending is letter:
                    self._sending = None

    def _may_send(self, letter: Letter) -> bool:
        with self._change:
            return self._sending is letter and letter.trusted()

    def _pause(self, letter: Letter, seconds: float) -> None:
        """Waits, but not for what was given up."""
        with self._change:
            self._change.wait_for(lambda: self._sending is not letter, seconds)

    def _next(self) -> Letter | None:
        """What is to be sent now: the same again if it was not confirmed, unless it is not ours to send any more."""
        with self._change:
            if self._sending is None and not self._queue:
                self._change.wait(IDLE)
            while self._sending is not None or self._queue:
                letter = self._sending or self._queue.popleft()
                if letter.trusted():
                    self._sending = letter
                    return letter
                self._sending = None
                self.dropped["trust_ended"] += 1
            return None
