"""What a worker tells of itself: whether it is ready, and figures for Prometheus. Pure."""

from __future__ import annotations

from collections.abc import Mapping

QUORUM = 0.8


def is_ready(assigned: int, working: int) -> bool:
    """Whether enough of what it was given is being worked on. Without any camera it is ready too."""
    return working >= QUORUM * assigned


def metrics(gauges: Mapping[str, float], dropped: Mapping[str, int], cameras: Mapping[str, tuple[int, int]]) -> str:
    """The page for Prometheus. `cameras` has frames worked on and frames skipped, since the worker began with them."""
    lines = []
    for name, value in gauges.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# TYPE camera_worker_{name} {kind}", f"camera_worker_{name} {value:g}"]
    lines.append("# TYPE camera_worker_events_dropped_total counter")
    lines += [f'camera_worker_events_dropped_total{{reason="{reason}"}} {count}' for reason, count in dropped.items()]
    for place, name in enumerate(("frames_total", "frames_skipped_total")):
        lines.append(f"# TYPE camera_worker_{name} counter")
        lines += [f'camera_worker_{name}{{camera_uuid="{_escaped(uuid)}"}} {counts[place]}' for uuid, counts in cameras.items()]
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
