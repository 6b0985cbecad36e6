"""A client of Leasehold's control plane: one file, nothing but the standard library, Python 3.11 or newer.

    client = Client("http://127.0.0.1:7400")
    client.put("jobs", "report", document={"query": "sales"})
    with client.acquire("jobs", "report", ttl=30) as lease:
        while not lease.lost.wait(1):
            work(under=lease.token)

A `Lease` renews itself in the background and knows until when it may be trusted: its TTL, counted on a clock that only
goes forward from before the request that was granted. At that moment, or when the server says that it is lost,
`lease.lost` is set, whatever the network does. A `Session` is the same for a member of a pool that holds many
resources with one heartbeat. Hand tokens to whatever you write to, so that a writer who is late can be refused.

`Lost`, `Held`, `NotFound`, `Forbidden` are the server's word. `Unavailable` means that nobody knows: what was asked for
may have happened or not.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import os
import secrets
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

TTL = 30.0  # how long a lease lasts unless said otherwise, in seconds


def now() -> float:
    """Seconds on the clock that trust is measured with: never back, and on Linux on while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def unique_id(name: str | None = None) -> str:
    """An id that no other process has, nor this one after a restart: name, start in nanoseconds, four random bytes."""
    return f"{(name or socket.gethostname())[:40]}-{time.time_ns()}-{secrets.token_hex(4)}"


@dataclass(eq=False)
class LeaseholdError(Exception):
    """The server did not do what was asked, or nobody knows whether it did."""
    message: str
    status: int | None = None  # the HTTP status, if there was an answer
    error: str | None = None  # what is wrong in one word, if the server said so. An answer without it is not Leasehold's
    request_id: str | None = None  # by which the answer is found in the server's log
    retry_after: float | None = None  # in how many seconds to ask again, if the server said so
    current: Mapping[str, Any] | None = None  # who holds the lease at present, where that matters

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


_KINDS = {401: Forbidden, 403: Forbidden, 404: NotFound, 410: NotFound, 409: Conflict, 412: Conflict}


class Fields(TypedDict, total=False):
    """What a resource consists of. What is left out gets its default, or in a patch stays as it is."""
    document: Any
    labels: Mapping[str, str]
    requires: Mapping[str, str]
    weight: int
    paused: bool
    member: str | None


@dataclass(frozen=True)
class Resource:
    """A resource and its lease, as far as the server was asked for them."""
    id: str
    holder_id: str | None = None
    token: int = 0  # the newest fencing token that was given out
    expires_at: str | None = None  # for people: whether a lease still holds is never decided by comparing wall clocks
    labels: Mapping[str, str] = field(default_factory=dict)
    requires: Mapping[str, str] = field(default_factory=dict)
    weight: int = 1
    paused: bool = False
    member: str | None = None
    version: int = 0  # counts the changes of the resource, not of its lease
    document: Any = None  # not in lists

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Resource:
        """Reads an answer."""
        names = {"scene_id": "id", "resource_id": "id", "version": "token", "resource_version": "version"}
        known = cls.__dataclass_fields__.keys()
        found = {names.get(name, name): each for name, each in value.items() if each is not None}
        return cls(**{name: each for name, each in found.items() if name in known})


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

        `credentials` is a file `{"user": ..., "password": ...}` that is exchanged for a token whenever the server knows none
        of ours. `cafile` has the certificates to trust, where they are not the system's."""
        self.url, self.timeout = url.rstrip("/"), timeout
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
        sent = {"Content-Type": "application/json", **(headers or {})}
        data = None if body is None else json.dumps(body).encode()
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
        self._token = answer.value["token"]

    def _send(self, method: str, url: str, data: bytes | None, headers: Mapping[str, str], timeout: float) -> Answer:
        key = f"Token {self._token}" if self._token else f"Bearer {self._key}"
        allowed = {"Authorization": key} if self._token or self._key else {}
        request = urllib.request.Request(url, data, {**headers, **allowed}, method=method)
        try:
            with self._opener.open(request, timeout=timeout) as response:
                raw = response.read()
                answer = Answer(response.status, response.headers, _json(raw), url)
        except urllib.error.HTTPError as error:
            raise _failure(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"{method} {url}: {getattr(error, 'reason', error)}") from error
        if raw and answer.value is None:
            # Something between us and the server: its success is not ours.
            raise Unavailable(f"{method} {url} was answered with something else than JSON", answer.status)
        return answer

    def list(self, pool: str, *, leased: bool | None = None, limit: int | None = None) -> Iterator[Resource]:
        """Every resource of the pool, or only those that are leased or free; page after page."""
        wanted = {"leased": leased if leased is None else str(leased).lower(), "limit": limit}
        answer = self.request("GET", _path(pool), query={name: each for name, each in wanted.items() if each is not None})
        yield from map(Resource.of, answer.value)
        while following := answer.next():
            answer = self.request("GET", following)
            yield from map(Resource.of, answer.value)

    def get(self, pool: str, resource: str) -> Resource:
        """One resource with its document."""
        return Resource.of(self.request("GET", _path(pool, resource)).value)

    def create(self, pool: str, resource: str, **fields: Unpack[Fields]) -> Resource:
        """Creates a resource; `Conflict` if there is one of that id."""
        return Resource.of(self.request("POST", _path(pool), {"id": resource, **fields}).value)

    def put(self, pool: str, resource: str, *, if_version: int | None = None, **fields: Unpack[Fields]) -> Resource:
        """Creates or replaces a resource; with `if_version` only if it still has that version."""
        return Resource.of(self._change("PUT", pool, resource, if_version, fields))

    def patch(self, pool: str, resource: str, *, if_version: int | None = None, **fields: Unpack[Fields]) -> Resource:
        """Changes what is given and leaves the rest."""
        return Resource.of(self._change("PATCH", pool, resource, if_version, fields))

    def delete(self, pool: str, resource: str, *, if_version: int | None = None) -> None:
        """Removes a resource. Whoever holds it keeps it until it lets go."""
        self._change("DELETE", pool, resource, if_version, None)

    def _change(self, method: str, pool: str, resource: str, if_version: int | None, fields: Fields | None) -> Any:
        headers = {} if if_version is None else {"If-Match": f'"{if_version}"'}
        return self.request(method, _path(pool, resource), fields, headers=headers).value

    def lease(self, pool: str, resource: str) -> Resource:
        """Who holds a resource, and the newest token: what a fence compares with."""
        return Resource.of({"resource_id": resource, **self.request("GET", _path(pool, resource, "lease")).value})

    def acquire(self, pool: str, resource: str, *, holder: str | None = None, ttl: float = TTL, every: float | None = None,
                budget: float | None = None, labels: Mapping[str, str] | None = None) -> Lease:
        """Takes the lease of a resource and renews it from now on. Raises `Held` if somebody has it.

        It is renewed `every` so many seconds, a third of its TTL. A renewal that gets no answer is tried again for `budget`
        seconds, or, without one, for as long as the lease can be trusted; then it is lost. 0 gives up at once."""
        holder = holder or unique_id()
        body = {"holder_id": holder, "ttl_ms": round(ttl * 1000), "labels": dict(labels or {})}
        # The same request again is answered with the same lease, so what is unknown can be asked for a second time.
        headers = {"Idempotency-Key": secrets.token_hex(16)}
        path = _path(pool, resource, "lease")
        sent = now()
        try:
            try:
                granted = self.request("POST", path, body, headers=headers).value
            except Unavailable:
                granted = self.request("POST", path, body, headers=headers).value
        except Conflict as error:
            raise Held(**vars(error)) from None
        # A server that knows no TTLs of its callers means the default.
        ttl = granted["ttl_ms"] / 1000 if granted.get("ttl_ms") else min(ttl, TTL)
        return Lease(self, pool, resource, holder, int(granted["version"]), ttl, sent, every, budget)

    def session(self, pool: str, *, name: str | None = None, ttl: float = TTL,
                labels: Mapping[str, str] | None = None) -> Session:
        """Joins a pool as a member that asks for what it wants."""
        return Session(self, pool, name or socket.gethostname(), ttl, labels or {})


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
        until = math.inf if timeout is None else now() + timeout
        while not self.is_set() and now() < until:
            super().wait(max(min(self.deadline, until) - now(), 0.0))
        return self.is_set()


class _Trusted:
    """What can be trusted until a deadline and is kept alive by a thread: a lease, or a session with all that it holds."""

    def __init__(self, name: str, trusted_until: float, every: float, budget: float | None, timeout: float,
                 renew: Callable[[float], float], give_back: Callable[[], object]) -> None:
        self.reason: str | None = None  # why it ended, if it was not the clock alone
        self._loss = _Loss(trusted_until)
        self._every, self._budget, self._timeout = every, budget, timeout
        self._renew, self._give_back = renew, give_back
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self._keep, name=name, daemon=True).start()

    @property
    def lost(self) -> threading.Event:
        """Set once there is no more trust: lost, given back, or past the deadline."""
        return self._loss

    @property
    def deadline(self) -> float:
        """Until when it is trusted unless it is renewed, on the clock of `now`."""
        return self._loss.deadline

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Unavailable):  # It runs out by itself.
            self._give_back()

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
        """Renews on a timer. A renewal is tried until there is an answer, or the budget is spent."""
        began, pause = now() + self._every, self._every
        while not self._stopped.wait(pause):
            left = self.deadline - now()
            if left <= 0:
                return self._lose("it ran out before it could be renewed")
            try:
                self._extend(self._renew(min(self._timeout, left)))
                began, pause = now() + self._every, self._every
            except Unavailable as error:
                pause = min(max(0.1, now() - began), 1.0)
                if self._budget is not None and now() + pause >= began + self._budget:
                    return self._lose(f"it could not be renewed in {self._budget} s: {error}")
            except LeaseholdError as error:
                return self._lose(str(error))


class Lease(_Trusted):
    """A resource that is ours for as long as `lost` is not set. Leaving its `with` block releases it."""

    def __init__(self, client: Client, pool: str, resource: str, holder: str, token: int, ttl: float, sent: float,
                 every: float | None, budget: float | None) -> None:
        self.pool, self.resource, self.holder = pool, resource, holder
        self.token = token  # the fencing token: higher than that of every holder before
        self.ttl, self._client = ttl, client
        super().__init__(f"lease of {pool}/{resource}", sent + ttl, every or ttl / 3, budget, client.timeout,
                         self._renew_once, self.release)

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
        # Some proxies drop the body of a DELETE, so it goes into the query.
        query = {"holder_id": self.holder, "version": self.token}
        answer = self._client.request("DELETE", _path(self.pool, self.resource, "lease"), query=query)
        return bool(answer.headers.get("X-Lease-Released") == "true")

    def _renew_once(self, timeout: float) -> float:
        sent = now()
        body = {"holder_id": self.holder, "version": self.token}
        self._client.request("POST", _path(self.pool, self.resource, "lease", "renew"), body, timeout=timeout)
        return sent + self.ttl


class Session(_Trusted):
    """A member's session in a pool: one heartbeat for all that it holds. It takes part in no plan: it gets what it asks for,
    if that is free. Leaving its `with` block ends it."""

    def __init__(self, client: Client, pool: str, name: str, ttl: float, labels: Mapping[str, str]) -> None:
        self.pool, self.id, self.ttl, self._client = pool, unique_id(name), ttl, client
        self._terms: dict[str, int] = {}
        self._beat = self._confirmed = 0
        # One call at a time, so that beats arrive in their order.
        self._calls = threading.RLock()
        profile = {"name": name, "capacity": 0, "labels": dict(labels), "ready": False, "settled": False, "plan_version": 1}
        self._session = {"pool": pool, "id": self.id, "ttl_ms": round(ttl * 1000), "profile": profile}
        # Those who listen for the whole TTL may have a clock that runs a tenth faster.
        self._trusted = ttl - max(ttl / 10, 0.2)
        sent = now()
        answer = client.request("POST", "/api/v1/store/open", {"session": self._session}).value
        if answer["answer"] != "done":
            raise Unavailable("the store may have forgotten something and opens no sessions for now; try again")
        self._era: str = answer["value"]
        super().__init__(f"session {self.id}", sent + self._trusted, ttl / 3, None, client.timeout,
                         self._beat_once, self.close)

    @property
    def held(self) -> dict[str, int]:
        """What it holds at this very moment: resources and their fencing tokens."""
        return {} if self._loss.is_set() else dict(self._terms)

    def acquire(self, *resources: str) -> dict[str, int]:
        """Takes what is free of these; answers what it has of them now, with tokens."""
        with self._calls:
            outcomes = self._call("acquire", wanted=[{"resource": each, "floor": 0} for each in resources])
            for resource, each in zip(resources, outcomes):
                if each["outcome"] == "granted":
                    self._terms[resource] = each["term"]["token"]
                elif each["by"] == self.id:  # An answer that got lost had granted it.
                    self._terms[resource] = each["token"]
            return {each: self._terms[each] for each in resources if each in self._terms}

    def release(self, *resources: str) -> None:
        """Gives these back."""
        with self._calls:
            terms = [{"resource": each, "token": self._terms.pop(each)} for each in resources if each in self._terms]
            self._call("release", terms=[{"term": each} for each in terms])

    def close(self) -> None:
        """Ends the session; all that it held is free."""
        self._lose("closed")
        self._client.request("POST", "/api/v1/store/close", {"session": self.id})

    def _beat_once(self, timeout: float) -> float:
        with self._calls:
            for revoked in self._call("beat", timeout):
                self._terms.pop(revoked["resource"], None)
            return self.deadline

    def _call(self, call: str, timeout: float | None = None, **said: Any) -> Any:
        """A call of the session: it raises the beat, and with that extends all trust."""
        if self._loss.is_set():
            raise Lost(f"session {self.id} has ended: {self.reason or 'it ran out'}")
        self._beat += 1
        number, sent = self._beat, now()
        pulse = {"era": self._era, "number": number, "confirmed": self._confirmed}
        body = {"session": self.id, "pulse": pulse, **said}
        answer = self._client.request("POST", f"/api/v1/store/{call}", body, timeout=timeout).value
        if answer["answer"] == "gone":
            self._lose("the server ended the session")
            raise Lost(f"session {self.id} is gone")
        if answer["answer"] == "frozen":
            # A store that may have forgotten is told what is held.
            self._era = answer["nonce"]
            terms: list[dict[str, Any]] = [{"resource": each, "token": token} for each, token in self._terms.items()]
            kept = self._call("reassert", timeout, session=self._session, terms=terms)
            self._terms = {each["resource"]: each["token"] for each, became in zip(terms, kept) if became == "kept"}
            raise Unavailable("the store may have forgotten something and changes nothing for now; try again")
        self._confirmed = number
        self._extend(sent + self._trusted)
        return answer["value"]


def _path(*parts: str) -> str:
    return "/api/v1/" + "/".join(urllib.parse.quote(part, safe="") for part in parts)


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None


def _failure(error: urllib.error.HTTPError) -> LeaseholdError:
    """What an answer other than success means."""
    raw = b""
    with error, contextlib.suppress(OSError, http.client.HTTPException):
        raw = error.read()
    found = _json(raw)
    body: dict[str, Any] = found if isinstance(found, dict) else {}
    # A server that is too busy or too slow has not decided anything that could be relied on.
    unknown = error.code >= 500 or error.code in (408, 429)
    kind = Unavailable if unknown else _KINDS.get(error.code, Invalid)
    later = error.headers.get("Retry-After") or ""
    word = body.get("error")
    message = str(body.get("message") or f"{error.url} answered {error.code} {error.reason}")
    return kind(message, error.code, word if isinstance(word, str) else None, error.headers.get("X-Request-Id"),
                float(later) if later.isdigit() else None, body.get("current"))
