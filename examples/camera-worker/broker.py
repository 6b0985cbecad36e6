"""For tests: a line to RabbitMQ that can be cut, and a consumer's process."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stage import HERE, wait_for


class Line:
    """Passes bytes on to the broker and back, until it is told otherwise."""

    def __init__(self, url: str) -> None:
        self._broker = ("127.0.0.1", urlsplit(url).port or 5672)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = url.replace(f":{self._broker[1]}", f":{port}")
        self._ends: list[socket.socket] = []
        self._is_cut = False
        self.deaf = False
        """Whether what the broker says is lost: events arrive, their confirmations do not."""
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Breaks every connection, and lets nobody connect until `mend`."""
        self._is_cut = True
        for end in self._ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                # Already broken.
                pass

    def mend(self) -> None:
        """Lets connections through again."""
        self.deaf = self._is_cut = False

    def close(self) -> None:
        """Ends it."""
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._is_cut:
                near.close()
                continue
            far = socket.create_connection(self._broker)
            self._ends += [near, far]
            threading.Thread(target=self._pass, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(far, near, True), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, back: bool) -> None:
        try:
            while some := source.recv(65536):
                if not (back and self.deaf):
                    sink.sendall(some)
        except OSError:
            # The other direction has ended.
            pass
        for end in (source, sink):
            end.close()


class Consumer:
    """A consumer's process, and its memory."""

    def __init__(self, url: str, name: str) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self._database = Path(self._directory.name, "events.db")
        self._log = Path(self._directory.name, "log")
        self._env = {**os.environ, "PYTHONPATH": str(HERE), "CAMERA_WORKER_AMQP_URL": url, "CAMERA_WORKER_EXCHANGE": name}
        self._command = [sys.executable, "-m", "camera_consumer", "--database", str(self._database), "--queue", name]
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        """Starts it, and waits until it listens."""
        with self._log.open("w") as log:
            self._process = subprocess.Popen(self._command, env=self._env, stdout=subprocess.PIPE, stderr=log, text=True)
        wait_for("the consumer listens", lambda: "listening" in self._log.read_text())

    def kill(self) -> None:
        """Kills it without warning."""
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def ends(self) -> dict[str, Any]:
        """Ends it; answers its counts."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        said, _ = self._process.communicate(timeout=60)
        found: dict[str, Any] = json.loads(said)
        return found

    def close(self) -> None:
        """Leaves nothing behind."""
        self.kill()
        self._directory.cleanup()

    def asked(self, question: str) -> list[tuple[Any, ...]]:
        """What is in its memory."""
        with sqlite3.connect(self._database, timeout=30) as db:
            return db.execute(question).fetchall()

    def accepted(self) -> list[tuple[int, int]]:
        """The token and the frame of all that it accepted, in order."""
        return self.asked("SELECT fencing_token, frame FROM events ORDER BY number")

    def refused(self, reason: str) -> int:
        """How many events it refused for this reason."""
        return sum(count for (count,) in self.asked(f"SELECT count FROM refused WHERE reason = '{reason}'"))
