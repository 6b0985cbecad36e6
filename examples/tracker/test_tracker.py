"""Tests of the tracker's parts; how several of them get on with each other is tested with real processes elsewhere."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import tempfile
import unittest
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from unittest import mock

from leasehold import Client
from stand_ins import Server, Stub
from tracker import manager
from tracker.config import Config, ConfigError, Lease, load
from tracker.fixed import FixedScenes, from_file
from tracker.leased import LeasedScenes
from tracker.log import Log
from tracker.scene import Scene, Tracks, Work
from tracker.share import shares


class FakeBus:
    """Remembers what was listened to and published."""

    connected = True

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}
        self.published: list[tuple[str, dict[str, Any]]] = []
        self.settled = 0

    def listen(self, camera: str, handler: Any) -> None:
        self.handlers[camera] = handler

    def forget(self, camera: str, handler: Any) -> None:
        assert self.handlers.pop(camera) is handler

    def publish(self, topic: str, message: dict[str, Any]) -> None:
        self.published.append((topic, message))

    def settle(self) -> None:
        self.settled += 1


class Quiet(unittest.TestCase):
    """Tests that keep the log to themselves."""

    def setUp(self) -> None:
        self.said = io.StringIO()
        self.enterContext(contextlib.redirect_stdout(self.said))
        self.log = Log(service="tracker")
        self.bus: Any = FakeBus()

    def stub(self, answer: Any) -> Client:
        stub = Stub(answer)
        self.addCleanup(stub.close)
        return Client(stub.url)


class Shares(unittest.TestCase):
    def test_everything_is_shared_out_evenly(self) -> None:  # proves C10
        for scenes, trackers in itertools.product(range(25), range(1, 8)):
            found = shares(scenes, dict.fromkeys("abcdefg"[:trackers], 0))
            self.assertEqual(sum(found.values()), scenes)
            self.assertLessEqual(max(found.values()) - min(found.values()), 1)

    def test_capacities_bound_it_and_others_take_the_rest(self) -> None:
        self.assertEqual(shares(9, {"a": 2, "b": 0, "c": 1}), {"a": 2, "b": 6, "c": 1})
        self.assertEqual(shares(9, {"a": 2, "b": 3}), {"a": 2, "b": 3})


class Configuration(unittest.TestCase):
    def test_the_environment_is_over_the_file(self) -> None:  # proves U03, R029
        self.assertEqual((Config().lease.ttl, Config().lease.renew, Config().lease.budget), (30, 10, 4))
        shipped = load(str(Path(__file__).with_name("tracker.json")), {})
        self.assertEqual(shipped.lease, Lease())
        found = load(None, {"TRACKER_LEASE_TTL": "12.5", "TRACKER_LEASE_STRICT_FIRST_FAILURE": "true", "TRACKER_NAME": "t"})
        self.assertEqual((found.lease.ttl, found.lease.budget, found.name), (12.5, 0, "t"))

    def test_nonsense_is_refused_with_its_name(self) -> None:  # proves U06
        for variable, value, word in [
            ("TRACKER_LEASE_TTL", "long", "TRACKER_LEASE_TTL"),
            ("TRACKER_LEASE_TTL", "9", "lease.ttl"),
            ("TRACKER_LEASE_TIMEOUT", "10", "lease.timeout"),
            ("TRACKER_LEASE_SCAN", "60", "lease.scan"),
            ("TRACKER_SCENES_SOURCE", "oracle", "scenes.source"),
            ("TRACKER_SCENES_SOURCE", "file", "scenes.file"),
            ("TRACKER_LEASE_STRICT_FIRST_FAILURE", "perhaps", "STRICT"),
        ]:
            with self.assertRaisesRegex(ConfigError, word):
                load(None, {variable: value})
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write('{"lease": {"tll": 30}}')
            file.flush()
            with self.assertRaisesRegex(ConfigError, "tll"):
                load(file.name, {})


class Working(Quiet):
    def test_messages_have_upstreams_fields_and_the_token(self) -> None:  # proves R040, C08, U02
        lease = mock.Mock(token=42, held=True, holder="h")
        scene = Scene.of("scene-01", {"name": "Hall", "cameras": ["c1", {"uid": "c2"}, "no/topic"]})
        work = Work(scene, self.bus, self.log, lease)
        work.start()
        self.assertEqual(set(self.bus.handlers), {"c1", "c2"})
        self.bus.handlers["c1"]("c1", {"timestamp": "now", "objects": {"person": [{"x": 1}], "car": []}})
        (topic, person), (_, car) = self.bus.published
        self.assertEqual(topic, "scenescape/data/scene/scene-01/person")
        schema = json.loads((Path(__file__).parent / "message.schema.json").read_text())
        self.assertEqual(set(person), set(schema["properties"]))
        types = {"string": str, "array": list, "integer": int}
        for field, value in person.items():
            self.assertIsInstance(value, types[schema["properties"][field]["type"]], field)
        self.assertFalse(schema["additionalProperties"])
        self.assertLessEqual(schema["properties"]["_version"]["maximum"], 2**53 - 1)
        self.assertEqual((person["_version"], person["scene_id"], person["name"]), (42, "scene-01", "Hall"))
        self.assertEqual((len(person["objects"]), car["objects"]), (1, []))
        lease.held = False
        self.bus.handlers["c1"]("c1", {"objects": {"person": [{}]}})
        self.assertEqual(len(self.bus.published), 2, "nothing is published without trust")
        lease.held = True
        late = self.bus.handlers["c1"]
        work.stop("test")
        late("c1", {"objects": {"person": [{}]}})
        self.assertEqual(len(self.bus.published), 2, "what was being handed over when it stopped is not published")
        self.assertEqual(self.bus.handlers, {})

    def test_track_ids_begin_anew_with_every_term(self) -> None:  # proves R037
        one, two = Tracks(), Tracks()
        first = one.track("c", "person", [{}, {}])
        self.assertEqual(first, one.track("c", "person", [{}, {}]))
        self.assertFalse({each["id"] for each in first} & {each["id"] for each in two.track("c", "person", [{}, {}])})

    def test_log_lines_are_json_with_the_agreed_fields(self) -> None:  # proves U07
        self.log.of(component="c").warn("renew", "it failed", ValueError("why"), scene_id="s")
        line = json.loads(self.said.getvalue())
        self.assertLessEqual({"timestamp", "level", "msg", "service", "component", "operation", "scene_id"}, set(line))
        self.assertEqual(line["error"], {"type": "ValueError", "message": "why"})


class Managers(Quiet):
    def test_an_old_manager_is_not_one_without_free_scenes(self) -> None:  # proves U05
        for body in ("<h1>Not Found</h1>", {"detail": "Not found."}):
            def old(request: BaseHTTPRequestHandler, _: bytes, body: Any = body) -> Stub.Reply:
                return (404, {}, body) if request.path.endswith("/lease") else (200, {}, {"results": []})

            client = self.stub(old)
            with self.assertRaisesRegex(manager.OldManager, "no lease routes"):
                LeasedScenes(client, self.bus, Config(), "me", self.log).look()

    def test_pages_of_both_kinds_are_read_to_their_end(self) -> None:  # proves U05
        def links(request: BaseHTTPRequestHandler, _: bytes) -> Stub.Reply:
            if "after" in request.path:
                return 200, {}, [{"scene_id": "b"}]
            return 200, {"Link": '</api/v1/scenes?after=a>; rel="next"'}, [{"scene_id": "a"}, {"scene_id": "not/a/topic"}]

        def results(request: BaseHTTPRequestHandler, _: bytes) -> Stub.Reply:
            following = None if "page" in request.path else f"http://{request.headers['Host']}/api/v1/scenes?page=2"
            return 200, {}, {"results": [{"uid": "b" if "page" in request.path else "a"}], "next": following}

        for answer in (links, results):
            self.assertEqual([manager.scene_id(each) for each in manager.scenes(self.stub(answer))], ["a", "b"])

    def test_with_a_manager_that_knows_no_sessions_holders_are_counted(self) -> None:  # proves C10
        def answer(request: BaseHTTPRequestHandler, _: bytes) -> Stub.Reply:
            path = request.path.removeprefix("/api/v1/")
            if path.startswith("store/"):
                return 404, {}, {"detail": "Not found."}
            if path == "scenes?leased=true":
                return 200, {}, [{"scene_id": f"s{n}", "holder_id": "other", "expires_at": "2001-01-01T00:00:00"} for n in (1, 2)]
            if path == "scenes?leased=false":
                return 200, {}, [{"scene_id": f"s{n}", "holder_id": None, "version": 0} for n in (3, 4, 5)]
            if request.command == "POST":
                return 201, {}, {"version": 1, "expires_at": "2100-01-01T00:00:00Z"}
            return (204, {}, "") if request.command == "DELETE" else (200, {}, {"scene_id": path, "error": None})

        scenes = LeasedScenes(self.stub(answer), self.bus, Config(), "me", self.log)
        self.assertEqual(scenes.look(), 5.0)
        self.assertEqual(self.said.getvalue().count('"takeover"'), 3)
        scenes.leave()
        self.assertEqual(self.bus.settled, 3, "the broker has everything before a scene is given away")


class Assigned(Quiet):
    def test_scenes_of_a_file(self) -> None:  # proves R016
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "scenes.json")
            path.write_text('{"scenes": [{"id": "s1", "cameras": ["c1"]}, {"id": "s2"}]}')
            self.assertEqual([each.id for each in from_file(str(path))], ["s1", "s2"])
            config = load(None, {"TRACKER_SCENES_SOURCE": "file", "TRACKER_SCENES_FILE": str(path)})
            scenes = FixedScenes(Client("http://127.0.0.1:9"), self.bus, config, self.log)
            scenes.look()
            self.bus.handlers["c1"]("c1", {"objects": [{}]})
            self.assertNotIn("_version", self.bus.published[0][1])
            path.write_text('{"scenes": [{"id": "../s1"}]}')
            self.assertRaises(ConfigError, from_file, str(path))

    def test_scenes_that_the_manager_assigns(self) -> None:  # proves R016
        server = Server()
        self.addCleanup(server.close)
        client = Client(server.url)
        for id, member in [("mine", "tracker-0"), ("theirs", "tracker-1"), ("anybodys", None)]:
            client.put("scenes", id, member=member, document={"cameras": [f"of-{id}"]})
        config = load(None, {"TRACKER_SCENES_SOURCE": "api", "TRACKER_NAME": "tracker-0"})
        scenes = FixedScenes(client, self.bus, config, self.log)
        scenes.look()
        self.assertEqual(set(self.bus.handlers), {"of-mine", "of-anybodys"})
        client.patch("scenes", "mine", member="tracker-1")
        scenes.look()
        self.assertEqual(set(self.bus.handlers), {"of-anybodys"})


if __name__ == "__main__":
    unittest.main()
