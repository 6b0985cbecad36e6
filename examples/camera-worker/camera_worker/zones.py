"""Which of the things in a frame are detections: those that a camera's document asks for, where it asks for them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def detections(objects: Sequence[Mapping[str, Any]], document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What is reported. Of the zones that a thing's centre lies in the one with the highest priority decides; where there are
    zones to look at, what is in none of them is left out."""
    zones = sorted(document.get("zones") or [], key=lambda zone: -zone.get("priority", 0))
    somewhere = any(zone.get("kind", "include") == "include" for zone in zones)
    found = []
    for each in objects:
        if not _wanted(each, document):
            continue
        left, top, width, height = each["box"]
        zone = next((zone for zone in zones if inside(left + width / 2, top + height / 2, zone.get("polygon") or [])), None)
        if zone is None:
            if somewhere:
                continue
        elif zone.get("kind") == "exclude" or not _wanted(each, zone):
            continue
        found.append({**each, "zone_id": zone and zone.get("zone_id")})
    return found


def _wanted(each: Mapping[str, Any], by: Mapping[str, Any]) -> bool:
    labels = by.get("allow_labels") or [each["label"]]
    return each["label"] in labels and each["score"] >= (by.get("min_score") or 0)


def inside(x: float, y: float, polygon: Sequence[Sequence[float]]) -> bool:
    """Whether a point lies in a polygon: a line from it to the right crosses its sides an odd number of times."""
    odd = False
    for (x1, y1), (x2, y2) in zip(polygon, [*polygon[1:], *polygon[:1]], strict=True):
        if (y1 > y) != (y2 > y) and x < x1 + (y - y1) / (y2 - y1) * (x2 - x1):
            odd = not odd
    return odd
