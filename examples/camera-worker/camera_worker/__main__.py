"""`python3 -m camera_worker --config FILE --runner-id ID --shard-id N --manager-pid PID`, as `leasehold manager` starts it."""

from __future__ import annotations

import argparse
import os
import sys

from .assignment import AssignmentError
from .endpoints import PortError
from .frames import FramesError
from .settings import SettingsError, load
from .worker import Worker


def shard(text: str) -> object:
    """A shard's id: a number, or a word."""
    return int(text) if text.isdigit() else text


def main() -> int:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="camera_worker", description="Works on the cameras that its manager gives it.")
    parser.add_argument("--config", required=True, help="the file that the manager writes")
    parser.add_argument("--runner-id", required=True)
    parser.add_argument("--shard-id", required=True, type=shard)
    parser.add_argument("--manager-pid", required=True, type=int, help="ends when this process does")
    given = parser.parse_args()
    who = {"runner_id": given.runner_id, "shard_id": given.shard_id}
    try:
        return Worker(given.config, who, given.manager_pid, load(os.environ), os.environ).run()
    except (AssignmentError, FramesError, PortError, SettingsError) as error:
        print(f"camera_worker: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"camera_worker: {error}; RabbitMQ needs the package python3-pika", file=sys.stderr)
        return 2


if __name__ == "__main__":
    code = main()
    # Threads that are still busy with a broker must not keep a worker alive that has said its last word.
    sys.stderr.flush()
    os._exit(code)
