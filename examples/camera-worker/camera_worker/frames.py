"""Where frames come from: a test pattern, or a file.

A camera films whether or not anybody looks. So its frames are numbered by the time of day: frame `n` is the one of `n / fps`
seconds after 1970, and whoever misses some can tell how many.
"""

from __future__ import annotations

import json
import math
from typing import Any, Protocol

WIDTH, HEIGHT = 1280, 720
FILE_MAX = 16 * 1024 * 1024


class FramesError(Exception):
    """A file of frames cannot be used."""


class Film(Protocol):
    """What is to be seen in each frame: objects with `label`, `score` and `box` (left, top, width, height)."""

    def frame(self, number: int) -> list[dict[str, Any]]:
        """One frame."""


class TestPattern:
    """A person who walks in circles, and a car that is parked."""

    def frame(self, number: int) -> list[dict[str, Any]]:
        """One frame."""
        angle = number % 100 / 100 * 2 * math.pi
        left, top = WIDTH / 2 + 400 * math.cos(angle), HEIGHT / 2 + 250 * math.sin(angle)
        return [
            {"label": "person", "score": 0.9, "box": [round(left) - 20, round(top) - 50, 40, 100]},
            {"label": "car", "score": 0.6, "box": [150, 150, 200, 100]},
        ]


class Recorded:
    """Frames of a file, `{"objects": [...]}` a line, over and over."""

    def __init__(self, path: str) -> None:
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read(FILE_MAX + 1)
        except (OSError, UnicodeDecodeError) as error:
            raise FramesError(f"{path} cannot be read: {error}") from error
        if len(text) > FILE_MAX:
            raise FramesError(f"{path} is longer than {FILE_MAX} characters")
        lines = [line for line in text.splitlines() if line.strip()]
        self._frames = [_objects(path, number, line) for number, line in enumerate(lines, 1)]
        if not self._frames:
            raise FramesError(f"{path} has no frames")

    def frame(self, number: int) -> list[dict[str, Any]]:
        """One frame."""
        return self._frames[number % len(self._frames)]


def _objects(path: str, number: int, line: str) -> list[dict[str, Any]]:
    try:
        objects = json.loads(line)["objects"]
        return [
            {"label": str(each["label"]), "score": float(each["score"]), "box": [float(side) for side in each["box"]]}
            for each in objects
            if len(each["box"]) == 4
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise FramesError(
            f'line {number} of {path} is not like {{"objects": [{{"label", "score", "box"}}]}}: {error!r}'
        ) from error


def film(path: str) -> Film:
    """The file's frames, or the test pattern."""
    return Recorded(path) if path else TestPattern()
