"""How many scenes are enough."""

from __future__ import annotations

from collections.abc import Mapping


def shares(scenes: int, capacities: Mapping[str, int]) -> dict[str, int]:
    """Shares scenes out as evenly as capacities allow (0 is no limit). Everybody who knows the same comes to the same result."""
    result = dict.fromkeys(sorted(capacities), 0)
    left = scenes
    while left > 0:
        room = [each for each in result if not capacities[each] or result[each] < capacities[each]]
        if not room:
            break
        for each in room[:left]:
            result[each] += 1
        left -= min(left, len(room))
    return result
