"""A client of Leasehold's control plane: one file, nothing but the standard library, Python 3.11 or newer.

    from leasehold import Client, Held

    client = Client("http://127.0.0.1:7400")
    client.put("jobs", "report", document={"query": "sales"})
    try:
        with client.acquire("jobs", "report", ttl=30) as lease:
            while not lease.lost.wait(1):
                work(under=lease.token)
    except Held as held:
        print("busy:", held)

A `Lease` renews itself in the background and knows until when it may be trusted: its TTL, counted on a clock that only
goes forward from before the request that was granted. When that moment comes, or the server says that the lease is
lost, `lease.lost` is set, whatever the network does. Hand `lease.token` to whatever you write to, so that a writer who
is late can be refused.

Two answers must never be confused. `Lost`, `Held`, `NotFound`, `Forbidden` are the server's word. `Unavailable` means that
nobody knows: what was asked for may have happened or not.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

__all__ = [
    "Client", "Conflict", "Fields", "Forbidden", "Held", "Invalid", "Lease", "LeaseholdError", "Lost", "NotFound",
    "Resource", "Standing", "Unavailable", "now", "unique_id",
]

TTL = 30.0
"""How long a lease lasts unless said otherwise, in seconds."""


def now() -> float:
    """Seconds on the clock that trust is measured with. It never goes back, and on Linux it goes on while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def unique_id(name: str | None = None) -> str:
    """An id that no other process has, nor this one after a restart: name, start in nanoseconds, four random bytes."""
    return f"{(name or socket.gethostname())[:40]}-{time.time_ns()}-{secrets.token_hex(4)}"


@dataclass(eq=False)
class LeaseholdError(Exception):
    """The server did not do what was asked, or nobody knows whether it did."""

    message: str
    status: int | None = None
    """The HTTP status, if there was an answer."""
    error: str | None = None
    """What is wrong in one word, if the server said so. An answer without it is not Leasehold's."""
    request_id: str | None = None
    """By which the answer is found in the server's log."""
    retry_after: float | None = None
    """In how many seconds to ask again, if the server said so."""
    current: Mapping[str, Any] | None = None
    """Who holds the lease at present, where that matters."""

    def __str__(self) -> str:
        return self.message


class Unavailable(LeaseholdError):
    """Unknown: no answer, or the server could not find out. It may have happened."""


class Forbidden(LeaseholdError):
    """The key is missing, wrong or not enough."""


class NotFound(LeaseholdError):
    """There is no such thing."""


class Conflict(LeaseholdError):
    """Something stands in the way: it exists, or it was changed meanwhile."""


class Held(Conflict):
    """Somebody has the lease, or nobody may have it at present; `error` says which."""


class Lost(LeaseholdError):
    """The lease is not yours any more. Stop working on the resource."""


class Invalid(LeaseholdError):
    """What was sent cannot be used."""


class Fields(TypedDict, total=False):
    """What a resource consists of. What is left out gets its default, or in a patch stays as it is."""

    document: Any
    labels: Mapping[str, str]
    requires: Mapping[str, str]
    weight: int
    paused: bool
    member: str | None


@dataclass(frozen=True)
class Standing:
    """A lease as it stands: the newest token, and who holds it."""

    holder_id: str | None
    version: int
    expires_at: str | None
    """For people: whether a lease still holds is never decided by comparing wall clocks."""

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Standing:
        """Reads an answer."""
        return cls(value.get("holder_id"), int(value.get("version") or 0), value.get("expires_at"))


@dataclass(frozen=True)
class Resource:
    """A resource and its lease."""

    id: str
    lease: Standing
    labels: Mapping[str, str] = field(default_factory=dict)
    requires: Mapping[str, str] = field(default_factory=dict)
    weight: int = 1
    paused: bool = False
    member: str | None = None
    version: int = 0
    """Counts the changes of the resource, not of its lease."""
    document: Any = None
    """Not in lists."""

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Resource:
        """Reads an answer."""
        return cls(
            id=str(value.get("scene_id") or value.get("resource_id") or ""),
            lease=Standing.of(value),
            labels=value.get("labels") or {},
            requires=value.get("requires") or {},
            weight=int(value.get("weight") or 1),
            paused=bool(value.get("paused")),
            member=value.get("member"),
            version=int(value.get("resource_version") or 0),
            document=value.get("document"),
        )


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Message
    value: Any
    url: str

    def next(self) -> str | None:
        """Where the list goes on (`Link: <...>; rel="next"`), as a whole address."""
        for link in (self.headers.get("Link") or "").split(","):
            target, _, parameters = link.partition(";")
            if 'rel="next"' in parameters:
                return urllib.parse.urljoin(self.url, target.strip().strip("<>"))
        return None


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it would turn a POST into a GET and take the key elsewhere."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Client:
    """One control plane. It may be used by several threads."""

    def __init__(self, url: str, *, api_key: str | None = None, credentials: str | Path | None = None,
                 cafile: str | Path | None = None, timeout: float = 2.5) -> None:
        """`api_key` is taken from the environment, `LEASEHOLD_API_KEY`, unless it is given.

        `credentials` is a file `{"user": ..., "password": ...}` that is exchanged for a token, again whenever the server
        does not know the token any more. `cafile` has the certificates to trust, where they are not the system's.
        """
        self.url = url.rstrip("/")
        self.timeout = timeout
        self._key = None if credentials else api_key or os.environ.get("LEASEHOLD_API_KEY")
        self._credentials = credentials
        self._token: str | None = None
        context = ssl.create_default_context(cafile=None if cafile is None else str(cafile))
        self._opener = urllib.request.build_opener(_Stay, urllib.request.HTTPSHandler(context=context))

    def request(self, method: str, path: str, body: Any = None, *, query: Mapping[str, Any] | None = None,
                headers: Mapping[str, str] | None = None, timeout: float | None = None) -> Answer:
        """Any request. `path` begins with a slash, or is a whole address of this server. Raises `LeaseholdError`."""
        url = path if path.startswith(self.url + "/") else self.url + path
        if query:
            url += "?" + urllib.parse.urlencode(query)
        sent = dict(headers or {})
        data = None
        if body is not None:
            data, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        timeout = timeout or self.timeout
        if self._credentials and self._token is None:
            self._log_in(timeout)
        try:
            return self._send(method, url, data, sent, timeout)
        except Forbidden as error:
            if error.status != 401 or not self._credentials:
                raise
        self._log_in(timeout)
        return self._send(method, url, data, sent, timeout)

    def _log_in(self, timeout: float) -> None:
        path = Path(str(self._credentials))
        try:
            found = json.loads(path.read_text())
            form = {"username": found["user"], "password": found["password"]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Forbidden(f"{path} is no file with user and password: {error!r}") from error
        self._token = None
        data = urllib.parse.urlencode(form).encode()
        answer = self._send("POST", self.url + "/api/v1/auth", data, {}, timeout)
        if not isinstance(answer.value, dict) or not answer.value.get("token"):
            raise Forbidden("the server gave no token for user and password", status=answer.status)
        self._token = answer.value["token"]

    def _send(self, method: str, url: str, data: bytes | None, headers: Mapping[str, str], timeout: float) -> Answer:
        request = urllib.request.Request(url, data, dict(headers), method=method)
        if self._token:
            request.add_header("Authorization", f"Token {self._token}")
        elif self._key:
            request.add_header("Authorization", f"Bearer {self._key}")
        try:
            with self._opener.open(request, timeout=timeout) as response:
                return Answer(response.status, response.headers, _json(response.read()), url)
        except urllib.error.HTTPError as error:
            raise _failure(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"{method} {url}: {getattr(error, 'reason', error)}") from error

    # Resources

    def list(self, pool: str, *, leased: bool | None = None, limit: int | None = None) -> Iterator[Resource]:
        """Every resource of the pool, or only those that are leased or free; page after page."""
        query: dict[str, Any] = {}
        if leased is not None:
            query["leased"] = str(leased).lower()
        if limit is not None:
            query["limit"] = limit
        answer = self.request("GET", _path(pool), query=query)
        while True:
            yield from map(Resource.of, answer.value)
            following = answer.next()
            if following is None:
                return
            answer = self.request("GET", following)

    def get(self, pool: str, resource: str) -> Resource:
        """One resource with its document."""
        return Resource.of(self.request("GET", _path(pool, resource)).value)

    def create(self, pool: str, resource: str, **fields: Unpack[Fields]) -> Resource:
        """Creates a resource; `Conflict` if there is one of that id."""
        return Resource.of(self.request("POST", _path(pool), {"id": resource, **fields}).value)

    def put(self, pool: str, resource: str, *, if_version: int | None = None, **fields: Unpack[Fields]) -> Resource:
        """Creates or replaces a resource; with `if_version` only if it still has that version."""
        return Resource.of(self.request("PUT", _path(pool, resource), dict(fields), headers=_if_match(if_version)).value)

    def patch(self, pool: str, resource: str, *, if_version: int | None = None, **fields: Unpack[Fields]) -> Resource:
        """Changes what is given and leaves the rest."""
        return Resource.of(self.request("PATCH", _path(pool, resource), dict(fields), headers=_if_match(if_version)).value)

    def delete(self, pool: str, resource: str, *, if_version: int | None = None) -> None:
        """Removes a resource. Whoever holds it keeps it until it lets go."""
        self.request("DELETE", _path(pool, resource), headers=_if_match(if_version))

    # Leases

    def standing(self, pool: str, resource: str) -> Standing:
        """Who holds a resource, and the newest token: what a fence compares with."""
        return Standing.of(self.request("GET", _path(pool, resource, "lease")).value)

    def acquire(self, pool: str, resource: str, *, holder: str | None = None, ttl: float = TTL, every: float | None = None,
                budget: float | None = None, labels: Mapping[str, str] | None = None) -> Lease:
        """Takes the lease of a resource and renews it from now on. Raises `Held` if somebody has it.

        It is renewed `every` third of its TTL. A renewal that gets no answer is tried again for `budget` seconds, or,
        without one, for as long as the lease can be trusted; then it is lost. 0 gives up at the first failure.
        """
        holder = holder or unique_id()
        body = {"holder_id": holder, "ttl_ms": round(ttl * 1000), "labels": dict(labels or {})}
        # The same request again is answered with the same lease, so what is unknown can be asked for a second time.
        headers = {"Idempotency-Key": secrets.token_hex(16)}
        path = _path(pool, resource, "lease")
        sent = now()
        try:
            try:
                answer = self.request("POST", path, body, headers=headers)
            except Unavailable:
                answer = self.request("POST", path, body, headers=headers)
        except Conflict as error:
            raise Held(**vars(error)) from None
        granted = answer.value
        # A server that knows no TTLs of its callers means the default.
        ttl = granted["ttl_ms"] / 1000 if granted.get("ttl_ms") else min(ttl, TTL)
        return Lease(self, pool, resource, holder, int(granted["version"]), ttl, sent, every, budget)

    def renew(self, pool: str, resource: str, holder: str, version: int, *, timeout: float | None = None) -> None:
        """Renews a lease once; `Lease` does it by itself. Raises `Lost` if it is not the holder's any more."""
        body = {"holder_id": holder, "version": version}
        try:
            self.request("POST", _path(pool, resource, "lease", "renew"), body, timeout=timeout)
        except Unavailable:
            raise
        except LeaseholdError as error:
            raise Lost(**vars(error)) from None

    def release(self, pool: str, resource: str, holder: str, version: int) -> bool:
        """Gives a lease back; false if there was nothing to give back. Harmless at any time: only that very lease is touched."""
        # Some proxies drop the body of a DELETE, so it goes into the query.
        query = {"holder_id": holder, "version": version}
        answer = self.request("DELETE", _path(pool, resource, "lease"), query=query)
        return bool(answer.headers.get("X-Lease-Released") == "true")


class _Loss(threading.Event):
    """An event that is also set by the clock, when the deadline has passed. Once set it stays so."""

    def __init__(self, deadline: float) -> None:
        super().__init__()
        self.deadline = deadline

    def is_set(self) -> bool:
        if not super().is_set() and now() >= self.deadline:
            self.set()
        return super().is_set()

    def wait(self, timeout: float | None = None) -> bool:
        until = None if timeout is None else now() + timeout
        while not self.is_set():
            ends = self.deadline if until is None else min(self.deadline, until)
            if super().wait(max(ends - now(), 0.0)):
                return True
            if until is not None and now() >= until:
                return self.is_set()
        return True


class _Trusted:
    """What can be trusted until a deadline and is kept alive by a thread: a lease, or a session with all that it holds."""

    def __init__(self, name: str, trusted_until: float, every: float, budget: float | None, timeout: float) -> None:
        self.reason: str | None = None
        """Why it ended, if it was not the clock alone."""
        self._loss = _Loss(trusted_until)
        self._every, self._budget, self._timeout = every, budget, timeout
        self._stopped = threading.Event()
        self._lock = threading.RLock()
        threading.Thread(target=self._keep, name=name, daemon=True).start()

    @property
    def lost(self) -> threading.Event:
        """Set once there is no more trust: lost, given back, or past the deadline."""
        return self._loss

    @property
    def deadline(self) -> float:
        """Until when it is trusted unless it is renewed, on the clock of `now`."""
        return self._loss.deadline

    def _renew(self, timeout: float) -> float:
        """Renews once and answers until when that is trusted."""
        raise NotImplementedError

    def _lose(self, reason: str) -> None:
        with self._lock:
            self.reason = self.reason or reason
            self._loss.set()
        self._stopped.set()

    def _extend(self, trusted_until: float) -> None:
        with self._lock:
            # What has once ended stays ended, even if the server meant well.
            if not self._loss.is_set():
                self._loss.deadline = max(self._loss.deadline, trusted_until)

    def _keep(self) -> None:
        while not self._stopped.wait(self._every):
            self._keep_once()

    def _keep_once(self) -> None:
        """One renewal: attempts until there is an answer, or the budget is spent."""
        began, pause = now(), 0.1
        while not self._stopped.is_set():
            left = self.deadline - now()
            if left <= 0:
                return self._lose("it ran out before it could be renewed")
            try:
                return self._extend(self._renew(min(self._timeout, left)))
            except Unavailable as error:
                if self._budget is not None and now() + pause >= began + self._budget:
                    return self._lose(f"it could not be renewed in {self._budget} s: {error}")
            except LeaseholdError as error:
                return self._lose(str(error))
            self._stopped.wait(pause)
            pause = min(pause * 2, 1.0)


class Lease(_Trusted):
    """A resource that is ours for as long as `lost` is not set. Leaving its `with` block releases it."""

    def __init__(self, client: Client, pool: str, resource: str, holder: str, token: int, ttl: float, sent: float,
                 every: float | None, budget: float | None) -> None:
        self.pool = pool
        self.resource = resource
        self.holder = holder
        self.token = token
        """The fencing token: higher than that of every holder before."""
        self.ttl = ttl
        self._client = client
        super().__init__(f"lease of {pool}/{resource}", sent + ttl, every or ttl / 3, budget, client.timeout)

    @property
    def held(self) -> bool:
        """Whether it may be worked on at this very moment. Cheap: ask before every step that others can see."""
        return not self._loss.is_set()

    def check(self) -> int:
        """The token, if the lease is held; raises `Lost` if not."""
        if not self.held:
            raise Lost(f"the lease of {self.pool}/{self.resource} is lost: {self.reason or 'it ran out'}")
        return self.token

    def release(self) -> bool:
        """Stops trusting the lease and then gives it back. False if the server had it no more."""
        self._lose("released")
        return self._client.release(self.pool, self.resource, self.holder, self.token)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Unavailable):  # It runs out by itself.
            self.release()

    def _renew(self, timeout: float) -> float:
        sent = now()
        self._client.renew(self.pool, self.resource, self.holder, self.token, timeout=timeout)
        return sent + self.ttl


def _path(*parts: str) -> str:
    return "/api/v1/" + "/".join(urllib.parse.quote(part, safe="") for part in parts)


def _if_match(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"{version}"'}


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None


def _failure(error: urllib.error.HTTPError) -> LeaseholdError:
    """What an answer other than success means."""
    with error:
        try:
            raw = error.read()
        except (OSError, http.client.HTTPException):
            raw = b""
    found = _json(raw)
    body: dict[str, Any] = found if isinstance(found, dict) else {}
    kinds: dict[int, type[LeaseholdError]] = {
        401: Forbidden, 403: Forbidden, 404: NotFound, 410: NotFound, 409: Conflict, 412: Conflict,
        # A server that is too busy or too slow has not decided anything that could be relied on.
        408: Unavailable, 429: Unavailable,
    }
    kind = Unavailable if error.code >= 500 else kinds.get(error.code, Invalid)
    later = error.headers.get("Retry-After") or ""
    word = body.get("error")
    return kind(
        str(body.get("message") or f"{error.url} answered {error.code} {error.reason}"),
        status=error.code,
        error=word if isinstance(word, str) else None,
        request_id=error.headers.get("X-Request-Id"),
        retry_after=float(later) if later.isdigit() else None,
        current=body.get("current"),
    )
