"""`python3 -m tracker [--config FILE] [run | healthcheck [/readyz | /healthz]]`."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading

from leasehold import Client, LeaseholdError, now, unique_id

from . import health
from .bus import Bus
from .config import Config, ConfigError, load
from .fixed import FixedScenes
from .leased import LeasedScenes
from .log import Log
from .manager import OldManager

BACKOFF_MAX = 10.0


class Tracker:
    """The process: looks for scenes until it is told to stop."""

    def __init__(self, config: Config) -> None:
        self._config = config
        # A start is told from the one before it: its leases are not ours.
        holder = unique_id(config.name)
        self._log = Log(service="tracker", component="tracker", tracker=config.name)
        self._bus = Bus(config.mqtt, holder, self._log)
        manager = config.manager
        client = Client(
            manager.url, credentials=manager.credentials or None, cafile=manager.cafile or None, timeout=config.lease.timeout
        )
        self._scenes: LeasedScenes | FixedScenes
        if config.scenes.source == "lease":
            self._scenes = LeasedScenes(client, self._bus, config, holder, self._log)
        else:
            self._scenes = FixedScenes(client, self._bus, config, self._log)
        self._stop = threading.Event()
        self._looked_at = now()
        self._found_once = False

    def run(self) -> None:
        """From start to end."""
        for told in (signal.SIGTERM, signal.SIGINT):
            signal.signal(told, lambda *_: self._stop.set())
        health.serve(self._config.health, self._healthy, self._ready)
        self._bus.start()
        self._log.info("start", f"{self._config.name} starts; scenes come from {self._config.scenes.source}")
        failures = 0
        pause = 0.0
        while not self._stop.wait(pause):
            self._looked_at = now()
            try:
                pause = self._scenes.look()
                failures = 0
                self._found_once = True
            except (LeaseholdError, OldManager) as error:
                self._scenes.failed()
                pause = self._backoff(failures, error)
                failures += 1
        self._scenes.leave()
        self._bus.stop()
        self._log.info("stop", f"{self._config.name} stopped")

    def _backoff(self, failures: int, error: Exception) -> float:
        """Twice as long after each failure; not all trackers at the same moment."""
        pause: float = min(0.5 * 2.0 ** min(failures, 10), BACKOFF_MAX) * random.uniform(0.5, 1.0)
        if isinstance(error, OldManager):
            self._log.error("look", str(error), error)
        else:
            self._log.warn("look", f"the Manager was of no help; asking again in {pause:.1f} s", error)
        return pause

    def _healthy(self) -> bool:
        """Whether the loop still turns: no pause and no request takes as long as this."""
        return now() - self._looked_at < 60

    def _ready(self) -> bool:
        """Whether work that it gets would be done. Without any it is ready too."""
        return self._bus.connected and self._found_once


def main() -> int:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="tracker", description="Tracks the scenes that it has leases of.")
    parser.add_argument("--config", default=os.environ.get("TRACKER_CONFIG"), help="a JSON file")
    parser.add_argument("command", nargs="?", default="run", choices=["run", "healthcheck"])
    parser.add_argument("path", nargs="?", default="/readyz", choices=["/readyz", "/healthz"])
    arguments = parser.parse_args()
    try:
        config = load(arguments.config, os.environ)
        if arguments.command == "healthcheck":
            return 0 if health.check(config.health, arguments.path) else 1
        Tracker(config).run()
    except ConfigError as error:
        print(f"tracker: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
