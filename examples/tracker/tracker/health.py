"""`/healthz`, `/readyz`, and who asks for them."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .config import Health


def serve(config: Health, healthy: Callable[[], bool], ready: Callable[[], bool]) -> None:
    """Answers from a thread of its own."""

    class Answers(BaseHTTPRequestHandler):
        timeout = 5

        def do_GET(self) -> None:
            if self.path == "/healthz":
                good = healthy()
                status = "healthy" if good else "unhealthy"
            elif self.path == "/readyz":
                good = ready()
                status = "ready" if good else "notready"
            else:
                self.send_error(404)
                return
            body = json.dumps({"status": status}).encode()
            self.send_response(200 if good else 503)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *_: object) -> None:
            """Says nothing: health is asked for all the time."""

    server = ThreadingHTTPServer((config.host, config.port), Answers)
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()


def check(config: Health, path: str) -> bool:
    """Asks a tracker on this machine, and prints what it says."""
    try:
        with urllib.request.urlopen(f"http://{config.host}:{config.port}{path}", timeout=3) as response:
            print(response.read().decode())
            return True
    except urllib.error.HTTPError as error:
        print(error.read().decode())
    except OSError as error:
        print(f"no answer: {error}")
    return False
