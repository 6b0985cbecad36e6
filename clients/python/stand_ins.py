"""Servers for tests: a real one, `LEASEHOLD_BIN serve`, and one that answers as it is told."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from leasehold import Client, Unavailable


def free_port() -> int:
    """A loopback port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_for(what: str, holds: Callable[[], object], patience: float = 120.0) -> None:
    """Waits for a condition, and fails if it does not come about."""
    until = time.monotonic() + patience
    while not holds():
        if time.monotonic() > until:
            raise AssertionError(f"waited in vain: {what}")
        time.sleep(0.02)


def certificate(directory: str) -> str:
    """Makes `cert.pem`, which answers for 127.0.0.1, and its `key.pem`. Whoever trusts the first needs nothing else."""
    cert, key = f"{directory}/cert.pem", f"{directory}/key.pem"
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    subprocess.run([*made, "-out", cert, "-keyout", key, *name], check=True, capture_output=True)
    return cert


class Server:
    """A control plane on a database of its own, which it keeps across restarts; with keys for these roles, if any, and over
    TLS if wanted: `ca` then is the certificate to trust."""

    def __init__(self, *roles: str, tls: bool = False) -> None:
        self._dir = tempfile.TemporaryDirectory()
        self._database = ["--database", f"sqlite:{self._dir.name}/leases.db"]
        self.keys = {role: self.key(role) for role in roles}
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._port}"
        self.ca = certificate(self._dir.name) if tls else None
        self.start()

    def start(self) -> None:
        """Starts it and waits until it answers."""
        command = [os.environ["LEASEHOLD_BIN"], "serve", "--listen", f"127.0.0.1:{self._port}"]
        if self.ca is not None:
            command += ["--tls-cert", self.ca, "--tls-key", f"{self._dir.name}/key.pem"]
        self._process = subprocess.Popen([*command, *self._database], stderr=subprocess.DEVNULL)
        client = Client(self.url, cafile=self.ca)

        def answers() -> bool:
            try:
                client.request("GET", "/readyz")
            except Unavailable:
                return False
            return True

        wait_for("the server answers", answers)

    def key(self, role: str, *more: str) -> str:
        """Makes an API key."""
        command = [os.environ["LEASEHOLD_BIN"], "keys", "create", "--json", "--role", role, *more, *self._database]
        made = subprocess.run(command, check=True, capture_output=True, text=True)
        return str(json.loads(made.stdout)["key"])

    def kill(self) -> None:
        """Ends it without warning."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Ends it for good."""
        self.kill()
        self._dir.cleanup()


class Stub:
    """A server that answers as `answer` says: with a status, headers and a body, or not at all (`None`)."""

    Reply = tuple[int, dict[str, str], Any] | None

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler, bytes], Stub.Reply]) -> None:
        class Answers(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                reply = answer(self, body)
                if reply is None:
                    self.close_connection = True
                    return
                status, headers, said = reply
                raw = said.encode() if isinstance(said, str) else json.dumps(said).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(raw)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(raw)

            do_GET = do_POST = do_PUT = do_DELETE = handle_any

            def log_message(self, format: str, *_: object) -> None:
                """Says nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Ends it."""
        self.server.shutdown()
        self.server.server_close()
