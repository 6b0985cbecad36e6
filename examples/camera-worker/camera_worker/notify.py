"""What a worker says to its manager, in the words of `sd_notify`."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from .log import Log


class Notify:
    """The socket of `NOTIFY_SOCKET`; without one nothing is said."""

    def __init__(self, env: Mapping[str, str], log: Log) -> None:
        address = env.get("NOTIFY_SOCKET", "")
        # A name that begins with @ is in no directory.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._log = log
        self._failed = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        # Whoever listens may be frozen: that must not stop us.
        self._socket.setblocking(False)

    def say(self, *lines: str) -> None:
        """Sends one datagram."""
        self.send("\n".join(lines).encode())

    def send(self, datagram: bytes) -> None:
        """Sends these bytes as they are."""
        if not self._address:
            return
        try:
            self._socket.sendto(datagram, os.fsencode(self._address))
            self._failed = False
        except OSError as error:
            if not self._failed:
                self._log.warn("notify_failed", f"the manager cannot be told: {error.strerror}")
            self._failed = True
