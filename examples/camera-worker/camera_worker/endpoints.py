"""`/healthz`, `/ready`, `/drain` and `/terminate` on one port of loopback, `/metrics` on another."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = tuple[int, str, str]
"""A status, a kind of content, and the content."""
Routes = dict[tuple[str, str], Callable[[], Answer]]


class PortError(Exception):
    """A port cannot be had."""


def as_json(status: int, said: Mapping[str, object]) -> Answer:
    """An answer for programs."""
    return status, "application/json", json.dumps(said)


def serve(port: int, routes: Routes) -> None:
    """Answers from threads of its own."""

    class Answers(BaseHTTPRequestHandler):
        timeout = 5

        def _answer(self) -> None:
            route = routes.get((self.command, self.path))
            if route is None:
                self.send_error(405 if any(path == self.path for _, path in routes) else 404)
                return
            if self.command == "POST" and self.headers.get("Origin"):
                # A page in a browser on this machine could reach us as well.
                self.send_error(403)
                return
            status, kind, text = route()
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer

        def log_message(self, format: str, *_: object) -> None:
            """Says nothing: health is asked for all the time."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Answers)
    except OSError as error:
        raise PortError(f"port {port} of loopback cannot be had: {error.strerror}") from error
    threading.Thread(target=server.serve_forever, name=f"port {port}", daemon=True).start()
