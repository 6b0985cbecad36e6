"""Whether the manager still lives."""

from __future__ import annotations

import os
import select


class Parent:
    """The manager's process. A process that was given its number later is not taken for it."""

    def __init__(self, pid: int) -> None:
        self._parent = os.getppid()
        self.fd: int | None = None
        """Becomes readable when it ends."""
        self._gone = False
        try:
            self.fd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._gone = True
        except OSError:
            # A kernel or a container that has no such thing: then it is the parent that is looked at.
            pass

    def is_gone(self) -> bool:
        """Whether it has ended, or is nobody's parent any more."""
        ended = self.fd is not None and bool(select.select([self.fd], [], [], 0)[0])
        return self._gone or ended or os.getppid() != self._parent
