"""A worker for tests: writes a line about each camera it may work on, again and again, and behaves badly where it is told to.

A line is `BOOTTIME CAMERA TOKEN RUNNER SHARD PID DEGRADED VERSION`. How to behave stands in the address of a camera
(`rtsp://test/crash`) or, for a whole worker, in the file `behave-RUNNER-SHARD` beside the journal: words such as `hang`.
"""

import argparse
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

args = argparse.ArgumentParser()
for name in ["--config", "--runner-id", "--shard-id", "--manager-pid"]:
    args.add_argument(name, required=True)
args.add_argument("--journal", required=True)
args.add_argument("--http", action="store_true")
args.add_argument("--tick", type=float, default=0.05)
args = args.parse_args()

journal = os.open(args.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
place = os.path.dirname(args.journal)
began = time.monotonic()
state = {"applied": None, "stop": False}
socket_path = os.environ.get("NOTIFY_SOCKET")
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


def behaves():
    """What this worker is told to do."""
    try:
        with open(f"{place}/behave-{args.runner_id}-{args.shard_id}", encoding="utf-8") as file:
            return file.read().split()
    except FileNotFoundError:
        return []


def say(text):
    """Tells the manager, unless only HTTP is spoken."""
    if args.http or not socket_path:
        return
    try:
        notify.sendto(text if isinstance(text, bytes) else text.encode(), socket_path)
    except OSError:
        pass


def stop(*_):
    """Stops, unless it is deaf."""
    if "deaf" not in behaves():
        state["stop"] = True


class Health(http.server.BaseHTTPRequestHandler):
    """What a worker says that speaks only HTTP."""

    def do_GET(self):
        """Answers /healthz."""
        body = json.dumps({"applied": state["applied"], "pid": os.getpid()}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Says nothing."""


signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGHUP, lambda *_: None)
print("a worker begins", flush=True)
if "leak" in behaves():
    subprocess.Popen(["sleep", "1000"])
if args.http:
    port = int(os.environ["LEASEHOLD_HTTP_PORT"])
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Health)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    except OSError as error:
        print(f"port {port}: {error}; nobody can ask this worker", flush=True)

config, stamp, alive_at, ready = None, None, 0, False
while not state["stop"]:
    if os.getppid() != int(args.manager_pid):
        sys.exit(3)
    words = behaves()
    if "hang" in words:
        time.sleep(1000)
    if "strange" in words:
        say(b"\xff\xfe\x00READY")
        say("APPLIED=many")
    found = os.stat(args.config)
    if (found.st_ino, found.st_mtime_ns) != stamp and "stubborn" not in words:
        stamp = (found.st_ino, found.st_mtime_ns)
        assert found.st_mode & 0o777 == 0o600, oct(found.st_mode)
        with open(args.config, encoding="utf-8") as file:
            config = json.load(file)
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    for camera in config["cameras"] if config else []:
        url = camera["document"]["rtsp_url"]
        if url.endswith("/crash") and time.monotonic() - began > 0.2:
            os.kill(os.getpid(), signal.SIGSEGV)
        if now < camera["trusted_until_boottime"] or "careless" in words:
            line = [
                f"{now:.6f}", camera["camera_uuid"], camera["fencing_token"], args.runner_id, args.shard_id,
                os.getpid(), int(camera["degraded"]), camera["zone_version"][:8],
            ]
            os.write(journal, (" ".join(map(str, line)) + "\n").encode())
    if config and state["applied"] != config["generation"]:
        state["applied"] = config["generation"]
        say(f"APPLIED={config['generation']}")
    if not ready or now - alive_at > config["heartbeat_seconds"] / 3:
        say(("WATCHDOG=1" if ready else "READY=1") + f"\nSTATUS={len(config['cameras'])} cameras\n")
        ready, alive_at = True, now
    time.sleep(args.tick)
