"""Document 004 as a client that knows nothing else: its paths, its bodies as they are printed, and `requests`."""

from __future__ import annotations

import unittest
from datetime import datetime, timezone
from typing import Any

import requests

from stand_ins import Server

CAMERA: dict[str, Any] = {
    "camera_uuid": "cam-001",
    "rtsp_url": "rtsp://camera.local/stream",
    "tenant_id": "tenant-1",
    "site_id": "site-1",
    "zones": [
        {
            "zone_id": 1,
            "name": "driveway",
            "kind": "include",
            "priority": 100,
            "polygon": [[100, 100], [700, 100], [700, 500], [200, 500]],
            "allow_labels": ["person", "car"],
            "min_score": 0.25,
        }
    ],
    "motion_gating": {"enabled": True, "downscale": 0.5, "min_area_px": 1500, "cooldown_frames": 2},
    "allow_labels": ["person", "car", "truck"],
    "min_score": 0.30,
    "zone_test": "center",
    "iou_threshold": 0.10,
}
ACQUIRE: dict[str, Any] = {
    "camera_uuid": "cam-001",
    "runner_id": "runner-abc123",
    "shard_id": "shard-1",
    "tenant_id": "tenant-1",
    "site_id": "site-1",
    "ttl_seconds": 60,
    "config_version": "abc123",
    "zone_version": "def456",
}
REGISTER: dict[str, Any] = {
    "runner_id": "runner-abc123",
    "tenant_id": "tenant-1",
    "site_id": "site-1",
    "deployment_group": "production",
    "deployment_version": "v1.2.3",
    "host": "worker-01.example.com",
    "port": 8080,
    "capacity": 16,
    "metrics_port": 9108,
    "capabilities": ["rtsp", "motion_detection", "zone_filtering"],
}


def moment(text: str) -> datetime:
    """A time as the document prints it: RFC 3339 in Z."""
    assert text.endswith("Z"), text
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


class Document(unittest.TestCase):
    """Every endpoint, in the order in which a deployment would use them."""

    def setUp(self) -> None:
        self.server = Server()
        self.addCleanup(self.server.close)
        self.http = requests.Session()
        self.addCleanup(self.http.close)

    def ask(self, method: str, path: str, expected: int, body: Any = None) -> Any:
        answer = self.http.request(method, f"{self.server.url}{path}", json=body, timeout=20)
        self.assertEqual(answer.status_code, expected, f"{method} {path}: {answer.text}")
        return answer.json() if answer.content else None

    def refused(self, method: str, path: str, expected: int, code: str, body: Any = None) -> None:
        answer = self.ask(method, path, expected, body)
        self.assertEqual(answer["error_code"], code)
        self.assertEqual(set(answer) & {"message", "details", "timestamp", "request_id"},
                         {"message", "details", "timestamp", "request_id"})
        moment(answer["timestamp"])

    # proves R156-R181, R129-R143, U19, C54, C63
    def test_every_endpoint_with_the_printed_bodies(self) -> None:
        site = "/api/v1/tenants/tenant-1/sites/site-1"
        before = self.ask("GET", f"{site}/config/version", 200)
        # Configuration.
        self.assertEqual(self.ask("GET", f"{site}/cameras/", 200), [])
        self.ask("POST", f"{site}/cameras/", 201, CAMERA)
        self.refused("POST", f"{site}/cameras/", 409, "camera_exists", CAMERA)
        shown = self.ask("GET", "/api/v1/cameras/cam-001/", 200)
        self.assertEqual({name: shown[name] for name in CAMERA}, CAMERA)
        self.assertEqual([camera["camera_uuid"] for camera in self.ask("GET", f"{site}/cameras/", 200)], ["cam-001"])
        changed = self.ask("PUT", f"{site}/cameras/cam-001/", 200, {**CAMERA, "min_score": 0.4})
        self.assertEqual(changed["min_score"], 0.4)
        self.ask("POST", f"{site}/zones/", 201, CAMERA["zones"][0])
        self.ask("PUT", f"{site}/zones/1/", 200, {**CAMERA["zones"][0], "name": "gate"})
        self.assertEqual([zone["name"] for zone in self.ask("GET", f"{site}/zones/", 200)], ["gate"])
        after = self.ask("GET", f"{site}/config/version", 200)
        self.assertNotEqual(before["config_version"], after["config_version"])
        # Runners.
        registered = self.ask("POST", "/api/v1/runners/register/", 201, REGISTER)
        self.assertEqual((registered["runner_id"], registered["status"], registered["assigned_cameras"]),
                         ("runner-abc123", "active", []))
        moment(registered["registered_at"])
        self.ask("PUT", "/api/v1/runners/runner-abc123/heartbeat/", 200, {"status": "active", "current_load": 0})
        # Leases.
        available = self.ask("GET", "/api/v1/cameras/available/", 200)
        self.assertEqual([camera["camera_uuid"] for camera in available], ["cam-001"])
        lease = self.ask("POST", "/api/v1/leases/acquire/", 201, ACQUIRE)
        for name in ("camera_uuid", "runner_id", "shard_id", "tenant_id", "site_id", "config_version", "zone_version"):
            self.assertEqual(lease[name], ACQUIRE[name])
        self.assertEqual(lease["status"], "active")
        self.assertAlmostEqual((moment(lease["expires_at"]) - moment(lease["acquired_at"])).total_seconds(), 60, delta=5)
        self.assertGreater(moment(lease["expires_at"]), datetime.now(timezone.utc))
        identity = lease["lease_id"]
        renewed = self.ask("PUT", f"/api/v1/leases/{identity}/renew/", 200)
        self.assertGreaterEqual(moment(renewed["expires_at"]), moment(lease["expires_at"]))
        self.ask("POST", f"/api/v1/leases/{identity}/heartbeat/", 200, {"frames": 12, "fps": 24.9})
        of_runner = self.ask("GET", "/api/v1/leases/runner/runner-abc123/", 200)
        self.assertEqual((len(of_runner), of_runner[0]["processing_stats"]), (1, {"frames": 12, "fps": 24.9}))
        self.assertEqual(self.ask("GET", "/api/v1/leases/camera/cam-001/", 200)[0]["lease_id"], identity)
        self.assertTrue(self.ask("GET", f"/api/v1/leases/{identity}/validate/", 200)["valid"])
        runner = self.ask("GET", "/api/v1/runners/runner-abc123/", 200)
        self.assertEqual(runner["assigned_cameras"], ["cam-001"])
        # Another runner is refused, and so is everything about a camera that is at work.
        self.ask("POST", "/api/v1/runners/register/", 201, {**REGISTER, "runner_id": "runner-2"})
        self.refused("POST", "/api/v1/leases/acquire/", 409, "already_held", {**ACQUIRE, "runner_id": "runner-2"})
        self.refused("PUT", "/api/v1/tenants/tenant-1/sites/site-2/cameras/cam-001/", 409, "camera_leased",
                     {**CAMERA, "site_id": "site-2"})
        self.assertEqual(self.ask("DELETE", f"/api/v1/leases/{identity}/release/", 200)["status"], "released")
        self.assertEqual(self.ask("GET", "/api/v1/leases/runner/runner-abc123/", 200), [])
        self.refused("PUT", "/api/v1/leases/018c2f6e-7a10-8f4b-b2c1-5d3a9e0b77aa/renew/", 404, "lease_not_found")
        second = self.ask("POST", "/api/v1/leases/acquire/", 201, {**ACQUIRE, "runner_id": "runner-2"})
        self.assertGreater(second["fencing_token"], lease["fencing_token"])
        self.assertEqual(self.ask("POST", f"/api/v1/leases/{second['lease_id']}/revoke/", 200)["status"], "revoked")
        self.refused("PUT", f"/api/v1/leases/{second['lease_id']}/renew/", 410, "lease_revoked")
        self.ask("DELETE", f"/api/v1/leases/{second['lease_id']}/release/", 200)
        events = self.ask("GET", "/api/v1/leases/audit/?tenant_id=tenant-1", 200)
        self.assertIn("lease_acquired", {event["event_type"] for event in events})
        # Everything goes again.
        self.ask("DELETE", "/api/v1/runners/runner-abc123/", 204)
        self.ask("DELETE", f"{site}/zones/1/", 204)
        self.ask("DELETE", f"{site}/cameras/cam-001/", 204)
        self.refused("GET", "/api/v1/cameras/cam-001/", 404, "camera_not_found")

    def test_both_slash_forms_and_the_event_stream(self) -> None:
        site = "/api/v1/tenants/tenant-1/sites/site-1"
        self.ask("POST", f"{site}/cameras", 201, CAMERA)
        self.ask("POST", "/api/v1/runners/register", 201, REGISTER)
        url = f"{self.server.url}/api/v1/leases/events/?tenant_id=tenant-1"
        with self.http.get(url, stream=True, timeout=20) as stream:
            lease = self.ask("POST", "/api/v1/leases/acquire", 201, ACQUIRE)
            line = next(line for line in stream.iter_lines(decode_unicode=True) if line.startswith("data:"))
            self.assertIn('"event_type":"lease_acquired"', line)
            self.assertIn(lease["lease_id"], line)
        for path in ("/api/v1/cameras/cam-001", f"{site}/config/version/", f"{site}/zones", "/api/v1/runners/runner-abc123"):
            self.ask("GET", path, 200)


if __name__ == "__main__":
    unittest.main()
