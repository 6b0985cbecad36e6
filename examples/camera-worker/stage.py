"""For tests: the part of the manager, played by a test. It writes the file, listens at the socket, and starts the worker."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FPS = 20
FAR = 3600.0


def boottime() -> float:
    """The clock of deadlines."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wait_for(what: str, holds: Callable[[], object], patience: float = 60.0) -> None:
    """Waits for a condition, and fails if it does not come about."""
    until = time.monotonic() + patience
    while not holds():
        if time.monotonic() > until:
            raise AssertionError(f"waited in vain: {what}")
        time.sleep(0.02)


def free_port() -> int:
    """A loopback port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def camera(uuid: str, token: int = 1, until: float | None = None, degraded: bool = False, **document: Any) -> dict[str, Any]:
    """A camera as the manager writes it; trusted for a long time unless it is said otherwise."""
    return {
        "camera_uuid": uuid,
        "tenant_id": "tenant-1",
        "site_id": "site-1",
        "lease_id": f"lease-of-{uuid}",
        "fencing_token": token,
        "trusted_until_boottime": boottime() + FAR if until is None else until,
        "trusted_until": "2026-01-01T00:00:00.000Z",
        "degraded": degraded,
        "config_version": "c",
        "zone_version": "z",
        "document": {"camera_uuid": uuid, "rtsp_url": "rtsp://u:secret@test-pattern/", "zones": [], **document},
    }


def assignment(generation: int, cameras: list[dict[str, Any]], http_port: int = 0, metrics_port: int = 0) -> dict[str, Any]:
    """The whole file."""
    return {
        "format": 1,
        "generation": generation,
        "runner_id": "runner-a",
        "shard_id": 0,
        "manager_pid": os.getpid(),
        "http_port": http_port,
        "metrics_port": metrics_port,
        "heartbeat_seconds": 1,
        "reload": "signal",
        "cameras": cameras,
    }


def lives(pid: int) -> bool:
    """Whether a process runs: one that has ended and was not fetched yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Shard:
    """A worker's process with its file, its socket and its ports."""

    def __init__(self, *cameras: dict[str, Any], runner: str = "runner-a", manager: int | None = None, **env: str) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self.path = Path(self._directory.name, "shard.json")
        self._ports = {"http_port": free_port(), "metrics_port": free_port()}
        self.generation = 0
        self.assign(*cameras)
        self.heard: list[str] = []
        """Every line that the worker said at the socket."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"{self._directory.name}/notify")
        threading.Thread(target=self._listen, daemon=True).start()
        self._output = [Path(self._directory.name, name) for name in ("stdout", "stderr")]
        command = [sys.executable, "-m", "camera_worker", "--config", str(self.path), "--runner-id", runner, "--shard-id", "0"]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("CAMERA_WORKER_")}
        with self._output[0].open("w") as out, self._output[1].open("w") as err:
            self.process = subprocess.Popen(
                [*command, "--manager-pid", str(os.getpid() if manager is None else manager)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                env={
                    **inherited,
                    "PYTHONPATH": str(HERE),
                    "NOTIFY_SOCKET": f"{self._directory.name}/notify",
                    "CAMERA_WORKER_FPS": str(FPS),
                    **{f"CAMERA_WORKER_{name}": value for name, value in env.items()},
                },
            )

    def close(self) -> None:
        """Leaves nothing behind, whatever the worker started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self._socket.close()
        self._directory.cleanup()

    def assign(self, *cameras: dict[str, Any], same_generation: bool = False) -> int:
        """Writes the file as the manager does; answers its generation."""
        self.generation += not same_generation
        self.write(json.dumps(assignment(self.generation, list(cameras), **self._ports)))
        return self.generation

    def write(self, text: str) -> None:
        """Replaces the file."""
        new = self.path.with_name("new")
        new.touch(mode=0o600)
        new.write_text(text)
        new.rename(self.path)

    def _listen(self) -> None:
        while True:
            try:
                self.heard += self._socket.recv(65536).decode(errors="replace").split("\n")
            except OSError:
                return

    def applied(self, generation: int) -> bool:
        """Whether the worker says that it works on exactly this."""
        return f"APPLIED={generation}" in self.heard

    def events(self, uuid: str | None = None) -> list[dict[str, Any]]:
        """What it published on standard output, whole lines only."""
        whole = self._output[0].read_text().rpartition("\n")[0]
        found = [json.loads(line) for line in whole.splitlines()]
        return [each for each in found if uuid in (None, each["camera_uuid"])]

    def log(self) -> str:
        """What it said in its log."""
        return self._output[1].read_text()

    def logged(self, event: str) -> int:
        """How many lines of its log are about this."""
        return self.log().count(f'"event": "{event}"')

    def tell(self, told: signal.Signals) -> None:
        """Sends a signal to the worker alone."""
        self.process.send_signal(told)

    def ends(self) -> int:
        """Waits for its end."""
        return self.process.wait(60)

    def figure(self, name: str) -> float:
        """One of its figures."""
        lines = (line.rpartition(" ") for line in self.ask("/metrics", port="metrics_port")[1].splitlines())
        return next(float(value) for found, _, value in lines if found == f"camera_worker_{name}")

    def ask(self, path: str, method: str = "GET", port: str = "http_port") -> tuple[int, str]:
        """Asks one of its ports; 0 if there is no answer."""
        request = urllib.request.Request(f"http://127.0.0.1:{self._ports[port]}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""
