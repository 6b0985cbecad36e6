"""Tests of the client against a real server: `LEASEHOLD_BIN=target/debug/leasehold python3 -m unittest`."""

from __future__ import annotations

import json
import os
import tempfile
import time
import unittest
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from unittest import mock

from leasehold import Client, Conflict, Forbidden, Held, Invalid, Lease, Lost, NotFound, Unavailable, _Loss, now, unique_id
from stand_ins import Server, Stub, certificate, wait_for


class WithServer(unittest.TestCase):
    """Tests with one server."""

    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()
        cls.addClassCleanup(cls.server.close)

    def setUp(self) -> None:
        # Each test has a pool of its own.
        self.client = Client(self.server.url)
        self.pool = f"pool-{self._testMethodName.replace('_', '-')}"[:60]


class Resources(WithServer):
    def test_a_resource_is_created_changed_and_removed(self) -> None:
        made = self.client.create(self.pool, "a", document={"cameras": ["c"]}, labels={"hall": "1"})
        self.assertEqual((made.id, made.document, made.labels, made.holder_id), ("a", {"cameras": ["c"]}, {"hall": "1"}, None))
        with self.assertRaises(Conflict):
            self.client.create(self.pool, "a")
        changed = self.client.patch(self.pool, "a", weight=3, if_version=made.version)
        self.assertEqual((changed.weight, changed.labels), (3, {"hall": "1"}))
        with self.assertRaises(Conflict) as stale:
            self.client.put(self.pool, "a", if_version=made.version)
        self.assertEqual(stale.exception.status, 412)
        self.assertEqual(self.client.put(self.pool, "a").labels, {})
        self.client.delete(self.pool, "a")
        with self.assertRaises(NotFound) as gone:
            self.client.get(self.pool, "a")
        self.assertEqual(gone.exception.error, "resource_not_found")
        self.assertTrue(gone.exception.request_id)

    def test_long_lists_come_in_pages(self) -> None:  # proves U05
        ids = [f"r+{number:02}" for number in range(11)]
        for each in ids:
            self.client.put(self.pool, each)
        with self.client.acquire(self.pool, ids[3]):
            self.assertEqual([each.id for each in self.client.list(self.pool, limit=2)], ids)
            self.assertEqual([each.id for each in self.client.list(self.pool, leased=True, limit=2)], [ids[3]])
            self.assertEqual(len(list(self.client.list(self.pool, leased=False, limit=3))), 10)

    def test_what_cannot_be_used_is_said(self) -> None:
        with self.assertRaises(Invalid) as wrong:
            self.client.put(self.pool, "a", weight=0)
        self.assertIn("weight", str(wrong.exception))


class Leases(WithServer):
    def setUp(self) -> None:
        super().setUp()
        self.client.put(self.pool, "a")

    def test_a_lease_is_held_by_one_and_outlives_its_ttl(self) -> None:  # proves R025, R027, C03
        with self.client.acquire(self.pool, "a", holder="one", ttl=1) as lease:
            self.assertFalse(lease.lost.wait(3.5))
            with self.assertRaises(Held) as held:
                self.client.acquire(self.pool, "a", holder="two")
            self.assertEqual(held.exception.error, "already_held")
            assert held.exception.current is not None
            self.assertEqual(held.exception.current["holder_id"], "one")
            self.assertEqual(self.client.lease(self.pool, "a").token, lease.check())
        self.assertFalse(lease.held)
        self.assertRaises(Lost, lease.check)
        with self.client.acquire(self.pool, "a", holder="two") as after:
            self.assertGreater(after.token, lease.token)
            # A late release of the one before changes nothing (C02).
            self.assertFalse(lease.release())
            self.assertEqual(self.client.lease(self.pool, "a").holder_id, "two")

    def test_a_lease_that_the_server_takes_away_is_lost(self) -> None:  # proves R032, C01
        lease = self.client.acquire(self.pool, "a", ttl=30, every=0.2)
        self.client.request("DELETE", f"/api/v1/{self.pool}/a/lease", {"holder_id": lease.holder})
        self.assertTrue(lease.lost.wait(20))
        self.assertIn("nobody holds", lease.reason or "")

    def test_paused_resources_are_not_to_be_had(self) -> None:
        self.client.patch(self.pool, "a", paused=True)
        with self.assertRaises(Held) as held:
            self.client.acquire(self.pool, "a")
        self.assertEqual(held.exception.error, "paused")
        self.assertRaises(NotFound, self.client.acquire, self.pool, "nothing")

    def test_a_killed_server_costs_nothing_if_it_returns_in_time(self) -> None:
        with self.client.acquire(self.pool, "a", ttl=30, every=0.2) as lease:
            self.server.kill()
            self.assertFalse(lease.lost.wait(1))
            self.server.start()
            renewed = lease.deadline
            wait_for("the lease is renewed", lambda: lease.deadline > renewed)
            self.assertEqual(self.client.lease(self.pool, "a").token, lease.check())


class Outages(unittest.TestCase):
    """What becomes of leases when nobody answers."""

    def setUp(self) -> None:
        self.server = Server()
        self.addCleanup(self.server.close)
        self.client = Client(self.server.url, timeout=0.5)
        self.client.put("jobs", "a")

    def outage(self, budget: float | None = None) -> tuple[Lease, float]:
        lease = self.client.acquire("jobs", "a", ttl=4, every=0.5, budget=budget)
        self.server.kill()
        began = now()
        self.assertTrue(lease.lost.wait(30))
        return lease, now() - began

    def test_without_a_budget_trust_ends_at_the_deadline(self) -> None:  # proves R046, R048
        lease, took = self.outage()
        self.assertGreaterEqual(now(), lease.deadline)
        self.assertGreater(took, 2.0)

    def test_a_budget_ends_it_sooner(self) -> None:  # proves C07
        lease, _ = self.outage(budget=1.0)
        self.assertLess(now(), lease.deadline)
        self.assertIn("could not be renewed in 1.0 s", lease.reason or "")

    def test_strictly_the_first_failure_ends_it(self) -> None:  # proves C07
        lease, took = self.outage(budget=0.0)
        self.assertLess(now(), lease.deadline)
        self.assertIn("could not be renewed", lease.reason or "")

    def test_the_clock_sets_the_event_by_itself(self) -> None:
        loss = _Loss(now() + 0.3)
        self.assertFalse(loss.wait(0.05))
        self.assertTrue(loss.wait())
        loss.deadline = now() + 100
        self.assertTrue(loss.is_set(), "what is lost stays lost")


class Sessions(WithServer):
    def test_members_share_a_pool(self) -> None:
        with self.client.session(self.pool, name="one", ttl=2) as one, self.client.session(self.pool, name="two", ttl=2) as two:
            self.assertEqual(one.acquire("a", "b"), {"a": 1, "b": 1})
            self.assertEqual(two.acquire("b", "c"), {"c": 1})
            self.assertFalse(one.lost.wait(4), "beats keep everything")
            self.assertEqual((one.held, two.held), ({"a": 1, "b": 1}, {"c": 1}))
            one.release("b")
            self.assertEqual(two.acquire("b"), {"b": 2})
        self.assertEqual(one.held, {})
        with self.client.session(self.pool) as three:
            self.assertEqual(three.acquire("a", "b", "c"), {"a": 2, "b": 3, "c": 2})

    def test_a_silent_member_is_followed_by_another(self) -> None:
        silent = self.client.session(self.pool, ttl=1)
        silent.acquire("a")
        silent._stopped.set()  # As if its process had died.
        with self.client.session(self.pool, ttl=20) as other:
            wait_for("the other one gets it", lambda: other.acquire("a"))
            self.assertEqual(other.held, {"a": 2})
        self.assertTrue(silent.lost.is_set())
        self.assertRaises(Lost, silent.acquire, "b")

    def test_a_restart_of_the_server_is_survived(self) -> None:
        with self.client.session(self.pool, ttl=20) as session:
            session.acquire("a")
            self.server.kill()
            self.server.start()
            self.assertEqual(session.acquire("a", "b"), {"a": 1, "b": 1})


class Keys(unittest.TestCase):
    """A server that wants to know who is there."""

    def test_who_may_do_what(self) -> None:  # proves U01
        server = Server("operator", "member", "read")
        self.addCleanup(server.close)
        operator, member, reader = (Client(server.url, api_key=key) for key in server.keys.values())
        operator.put("jobs", "a")
        self.assertRaises(Forbidden, member.put, "jobs", "b")
        with member.acquire("jobs", "a") as lease:
            self.assertEqual(reader.lease("jobs", "a").token, lease.token)
            self.assertRaises(Forbidden, reader.acquire, "jobs", "a")
        with member.session("jobs") as session:
            self.assertEqual(session.acquire("a"), {"a": 2})
        self.assertRaises(Forbidden, Client(server.url).lease, "jobs", "a")
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory, "credentials.json")
            file.write_text(json.dumps({"user": "tracker", "password": server.keys["member"]}))
            with Client(server.url, credentials=file).acquire("jobs", "a") as lease:
                self.assertEqual(lease.check(), 3)


class Tls(unittest.TestCase):
    """A server with a certificate and keys, as it is where others can reach it."""

    def test_tls_is_spoken_with_those_who_can_prove_who_they_are(self) -> None:  # proves R039
        server = Server("operator", "member", tls=True)
        self.addCleanup(server.close)
        operator, member = (Client(server.url, api_key=key, cafile=server.ca) for key in server.keys.values())
        operator.put("jobs", "a")
        with member.acquire("jobs", "a") as lease:
            self.assertEqual(operator.lease("jobs", "a").token, lease.check())
        with member.session("jobs") as session:
            self.assertEqual(session.acquire("a"), {"a": 2})
        self.assertRaises(Forbidden, Client(server.url, cafile=server.ca).lease, "jobs", "a")
        with tempfile.TemporaryDirectory() as directory:
            for trusted in [None, certificate(directory)]:
                stranger = Client(server.url, api_key=server.keys["member"], cafile=trusted)
                with self.assertRaises(Unavailable) as raised:
                    stranger.lease("jobs", "a")
                self.assertIn("certificate verify failed", str(raised.exception))
        plain = Client(server.url.replace("https:", "http:"), api_key=server.keys["member"])
        self.assertRaises(Unavailable, plain.lease, "jobs", "a")


class Line(unittest.TestCase):
    """What goes over the line, and what may come back."""

    def stub(self, answer: Any) -> Stub:
        stub = Stub(answer)
        self.addCleanup(stub.close)
        return stub

    def test_the_key_comes_from_the_argument_or_the_environment(self) -> None:
        stub = self.stub(lambda request, _: (200, {}, {"authorization": request.headers.get("Authorization")}))
        with mock.patch.dict(os.environ, {"LEASEHOLD_API_KEY": "from-outside"}):
            self.assertEqual(Client(stub.url).request("GET", "/").value, {"authorization": "Bearer from-outside"})
            self.assertEqual(Client(stub.url, api_key="k").request("GET", "/").value, {"authorization": "Bearer k"})

    def test_credentials_become_a_token_again_and_again(self) -> None:  # proves U01
        tokens: list[str] = []

        def answer(request: BaseHTTPRequestHandler, body: bytes) -> Stub.Reply:
            if request.path == "/api/v1/auth":
                self.assertEqual(body, b"username=anna&password=a+secret")
                tokens.append(f"t{len(tokens)}")
                return 200, {}, {"token": tokens[-1]}
            good = bool(tokens) and request.headers.get("Authorization") == f"Token {tokens[-1]}"
            return (200, {}, {"good": True}) if good else (401, {}, {"error": "unauthorized", "message": "who is there?"})

        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory, "credentials.json")
            file.write_text(json.dumps({"user": "anna", "password": "a secret"}))
            client = Client(self.stub(answer).url, credentials=file)
            client.request("GET", "/x")
            tokens.append("the server forgot ours")
            self.assertEqual(client.request("GET", "/x").value, {"good": True})
            self.assertEqual(len(tokens), 3)
            file.write_text("{}")
            tokens.append("and once more")
            self.assertRaises(Forbidden, client.request, "GET", "/x")

    def test_a_lost_answer_is_asked_for_again_under_the_same_key(self) -> None:
        keys: list[str | None] = []

        def answer(request: BaseHTTPRequestHandler, _: bytes) -> Stub.Reply:
            keys.append(request.headers.get("Idempotency-Key"))
            return None if len(keys) == 1 else (201, {}, {"version": 7, "ttl_ms": 60000})

        sent = now()
        lease = Client(self.stub(answer).url).acquire("jobs", "a", ttl=60)
        self.assertEqual((lease.token, len(keys), keys[0]), (7, 2, keys[1]))
        self.assertLess(lease.deadline, sent + 61)

    def test_what_is_not_the_servers_word_decides_nothing(self) -> None:
        page = "<html>please log in to this hotel's network</html>"
        for status, kind in [(200, Unavailable), (302, Invalid), (404, NotFound), (429, Unavailable), (502, Unavailable)]:
            client = Client(self.stub(lambda *_, status=status: (status, {"Location": "/elsewhere"}, page)).url)
            with self.assertRaises(kind) as raised:
                client.lease("jobs", "a")
            self.assertIsNone(raised.exception.error)

    def test_a_server_that_never_answers_is_given_up(self) -> None:  # proves U06
        began = time.monotonic()
        client = Client(self.stub(lambda *_: time.sleep(5)).url, timeout=0.3)
        self.assertRaises(Unavailable, client.lease, "jobs", "a")
        self.assertLess(time.monotonic() - began, 4)

    def test_ids_of_two_starts_differ(self) -> None:  # proves C11, C14
        self.assertNotEqual(unique_id("tracker-0"), unique_id("tracker-0"))
        self.assertLess(len(unique_id("x" * 200)), 80)


if __name__ == "__main__":
    unittest.main()
