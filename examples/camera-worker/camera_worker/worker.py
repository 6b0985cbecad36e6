"""The process: does what the manager's file says, says so, and ends when it is told to or when the manager is gone."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Mapping

from . import report
from .assignment import Assignment, AssignmentError, Camera, File, Term
from .clock import boottime
from .endpoints import Answer, as_json, serve
from .frames import film
from .log import Log
from .notify import Notify
from .outbox import Outbox
from .parent import Parent
from .settings import Settings
from .sinks import RabbitMq, Stdout
from .ulid import Ulids
from .work import Work

TICK = 0.25
FINISH_MAX = 2.0
"""Seconds that cameras may take to stop when the worker ends, beside what is queued."""


class Worker:
    """Works on cameras until it is told to stop."""

    def __init__(self, path: str, who: dict[str, object], manager_pid: int, settings: Settings, env: Mapping[str, str]) -> None:
        self._log = Log(**who)
        self._who = who
        self._settings = settings
        self._file = File(path)
        self._film = film(settings.frames)
        self._parent = Parent(manager_pid)
        self._notify = Notify(env, self._log)
        self._watchdog = int(env.get("WATCHDOG_USEC") or 0) / 1_000_000
        first = self._file.changed()
        assert first is not None, "the first look always sees a change"
        self._assignment: Assignment = first
        sink = RabbitMq(settings.amqp_url, settings.exchange) if settings.amqp_url else Stdout()
        self._outbox = Outbox(sink, settings.queue_max, self._log)
        self._ulids = Ulids()
        self._works: dict[Term, Work] = {}
        self._leaving: dict[Work, float] = {}
        """What was taken away and has not ended, and when that was."""
        self._manners = settings.misbehave
        self._applied: int | None = None
        self._beat_at = 0.0
        self._leaked: list[subprocess.Popen[bytes]] = []
        self._told = ""
        """Why it is to end."""
        self._refused = ""
        """Why the file was last refused, so that it is said once."""
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)

    def run(self) -> int:
        """From start to end; answers the exit code."""
        # A signal only wakes the loop: what it is for is done between two turns.
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGHUP, lambda *_: None)
        for told in (signal.SIGTERM, signal.SIGINT):
            signal.signal(told, self._on_signal)
        self._open_ports()
        self._log.info("worker_started", f"begins with {len(self._assignment.cameras)} cameras")
        if self._manners:
            self._log.warn("misbehaving", f"was asked to misbehave: {', '.join(sorted(self._manners))}")
        code = 0
        while not self._told:
            self._look()
            self._arrange()
            self._misbehave()
            self._beat()
            if failed := next((work for work in self._works.values() if work.failure), None):
                self._log.error("camera_failed", f"{failed.failure!r}", camera_uuid=failed.camera.term.camera)
                self._told, code = "a camera failed", 1
            elif self._parent.is_gone() and not self._clings():
                self._told, code = "its manager is gone", 1
            else:
                self._rest()
        self._finish()
        return code

    def _on_signal(self, number: int, _frame: object) -> None:
        if "ignore-sigterm" not in self._manners:
            self._told = signal.Signals(number).name

    def _rest(self) -> None:
        watched = [self._wake.fileno()]
        if self._parent.fd is not None and not self._clings():
            watched.append(self._parent.fd)
        if self._wake.fileno() in select.select(watched, [], [], TICK)[0]:
            self._wake.recv(4096)

    def _clings(self) -> bool:
        return "never-let-go" in self._manners

    def _look(self) -> None:
        try:
            found = self._file.changed()
        except AssignmentError as error:
            return self._refuse(str(error))
        if found is None:
            return
        if found.generation < self._assignment.generation:
            return self._refuse(f"generation {found.generation} is older than what was there before")
        self._refused = ""
        if found.generation > self._assignment.generation:
            self._log.info("assignment_changed", f"generation {found.generation} has {len(found.cameras)} cameras")
        self._assignment = found

    def _refuse(self, why: str) -> None:
        if why != self._refused:
            self._log.error("assignment_refused", f"{why}; going on with generation {self._assignment.generation}")
        self._refused = why

    def _arrange(self) -> None:
        """Starts, updates and stops work until it is what the file says."""
        given = self._assignment.cameras
        for term in self._works.keys() - given.keys():
            self._leaving[self._works.pop(term)] = boottime()
        for work, since in list(self._leaving.items()):
            work.stop()
            if self._has_gone(work, since):
                del self._leaving[work]
        for term, camera in given.items():
            current = self._works.get(term)
            if current is not None:
                current.update(camera)
            if (current is None or not current.running) and self._may_start(camera):
                self._works[term] = Work(camera, self._who, self._settings, self._film, self._outbox, self._ulids, self._log)
        applied = None if self._leaving else self._assignment.generation
        if applied is not None and applied != self._applied:
            if self._applied is None:
                self._notify.say("READY=1")
            self._applied = applied
            self._notify.say(f"APPLIED={applied}", self._status())

    def _may_start(self, camera: Camera) -> bool:
        """Not without trust, and not beside an earlier term of the same camera that has not ended."""
        uuid = camera.term.camera
        return camera.trusted_until > boottime() and all(work.camera.term.camera != uuid for work in self._leaving)

    def _has_gone(self, work: Work, since: float) -> bool:
        """Whether nothing more comes from it: it stopped, and what it had queued was sent, or given up in time."""
        if work.running:
            return False
        term = work.camera.term
        # Half of what is left of its trust at most: a manager that is not told in time must kill the whole worker.
        flush = min(self._settings.flush, (work.camera.trusted_until - since) / 2)
        if boottime() - since > flush:
            self._outbox.discard(term)
        return not self._outbox.waiting(term)

    def _beat(self) -> None:
        now = boottime()
        if now < self._beat_at:
            return
        pace = self._assignment.heartbeat
        if self._watchdog:
            pace = min(pace, self._watchdog)
        self._beat_at = now + pace / 2
        if "babble" in self._manners:
            self._notify.send(b"\xff\xfe=\n==\nWATCHDOG\nAPPLIED=minus one\nREADY\0=" + b"x" * 5000)
        if self._healthy():
            applied = [] if self._applied is None else [f"APPLIED={self._applied}"]
            self._notify.say("WATCHDOG=1", *applied, self._status())
        else:
            self._notify.say(self._status())

    def _standing(self) -> list[str]:
        """The cameras that have not moved for the time of a heartbeat."""
        since = boottime() - self._assignment.heartbeat
        return [work.camera.term.camera for work in list(self._works.values()) if work.running and work.turned < since]

    def _healthy(self) -> bool:
        return not self._standing()

    def _working(self) -> int:
        return sum(work.running for work in list(self._works.values()))

    def _status(self) -> str:
        standing = self._standing()
        trouble = f"; standing still: {', '.join(standing[:3])}" if standing else ""
        return f"STATUS=working on {self._working()} of {len(self._assignment.cameras)} cameras{trouble}"

    def _misbehave(self) -> None:
        """Does what it was asked to by the environment or by a camera, for tests of those who must cope with it."""
        for work in self._works.values():
            if new := work.manners - self._manners:
                self._log.warn("misbehaving", f"a camera asks for it: {', '.join(new)}", camera_uuid=work.camera.term.camera)
                self._manners |= new
        if "leak-children" in self._manners and not self._leaked:
            stubborn = 'trap "" TERM HUP INT; sleep 3600 & sleep 3600'
            self._leaked = [subprocess.Popen(["sh", "-c", stubborn]), subprocess.Popen(["sleep", "3600"])]
        if any(work.frames for work in self._works.values()):
            if "crash" in self._manners:
                os._exit(70)
            while "hang" in self._manners:
                time.sleep(3600)

    def _finish(self) -> None:
        self._log.info("worker_stopping", f"ends: {self._told}")
        self._notify.say("STOPPING=1")
        works = [*self._works.values(), *self._leaving]
        began = boottime()
        for work in works:
            work.stop()
        # Whatever it waits for, it does not wait forever.
        until = began + self._settings.flush + FINISH_MAX
        while boottime() < until and any(not self._has_gone(work, began) for work in works if not work.clings):
            time.sleep(0.01)
        self._log.info("worker_stopped", "has ended", sent=self._outbox.sent, dropped=dict(self._outbox.dropped))

    def _open_ports(self) -> None:
        serve(
            self._assignment.http_port,
            {
                ("GET", "/healthz"): self._tell_health,
                ("GET", "/ready"): self._tell_ready,
                ("POST", "/drain"): self._drain,
                ("POST", "/terminate"): self._terminate,
            },
        )
        serve(self._assignment.metrics_port, {("GET", "/metrics"): self._tell_metrics})

    def _tell_health(self) -> Answer:
        good = self._healthy()
        said = {
            "status": "healthy" if good else "unhealthy",
            "applied": self._applied,
            "pid": os.getpid(),
            "standing_still": self._standing(),
        }
        return as_json(200 if good else 503, said)

    def _tell_ready(self) -> Answer:
        assigned, working = len(self._assignment.cameras), self._working()
        good = report.is_ready(assigned, working)
        return as_json(
            200 if good else 503, {"status": "ready" if good else "notready", "assigned": assigned, "working": working}
        )

    def _drain(self) -> Answer:
        """Ends as with SIGTERM."""
        self._told = "POST /drain"
        self._waker.send(b"\0")
        return as_json(202, {"status": "draining"})

    def _terminate(self) -> Answer:
        """Ends at once; what is queued is not sent."""
        self._log.warn("worker_terminated", "ends at once: POST /terminate")
        os._exit(1)

    def _tell_metrics(self) -> Answer:
        gauges = {
            "generation_applied": self._applied or 0,
            "cameras_assigned": len(self._assignment.cameras),
            "cameras_working": self._working(),
            "events_confirmed_total": self._outbox.sent,
        }
        works = list(self._works.values())
        cameras = {work.camera.term.camera: (work.frames, work.skipped) for work in works}
        return 200, "text/plain; version=0.0.4", report.metrics(gauges, self._outbox.dropped, cameras)
