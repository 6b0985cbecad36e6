"""What the Manager is asked, besides leases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from leasehold import Client, Invalid, NotFound

from .scene import PLAIN, Scene

POOL = "scenes"


class OldManager(Exception):
    """This Manager knows no leases."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"the Manager at {url} has no lease routes (it is too old): scenes cannot be shared by leases; "
            "upgrade it, or set scenes.source to file or api"
        )


def check_leases(client: Client) -> None:
    """Whether there are leases at all, so that an old Manager is not taken for one without free scenes."""
    try:
        client.lease(POOL, "x")
    except NotFound as error:
        # Who knows leases says in one word what was not found.
        if error.error is None:
            raise OldManager(client.url) from error


def scenes(client: Client, leased: bool | None = None) -> Iterator[dict[str, Any]]:
    """What the Manager lists, page after page: bare arrays with `Link`, or `{"results": [...], "next": ...}`."""
    query = {} if leased is None else {"leased": str(leased).lower()}
    answer = client.request("GET", f"/api/v1/{POOL}", query=query)
    while True:
        page: Any = answer.value
        following: Any = answer.next()
        if isinstance(page, dict):
            page, following = page.get("results"), page.get("next")
        if not isinstance(page, list):
            raise Invalid(f"{answer.url} is no list of scenes", status=answer.status)
        for each in page:
            if isinstance(each, dict) and PLAIN.fullmatch(scene_id(each)):
                yield each
        if not following:
            return
        answer = client.request("GET", following)


def scene_id(listed: dict[str, Any]) -> str:
    """The id of a listed scene, by its new name or its old one."""
    return str(listed.get("scene_id") or listed.get("uid") or "")


def described(client: Client, id: str) -> Scene:
    """A scene with its cameras."""
    return Scene.of(id, client.get(POOL, id).document)


def assigned(client: Client, name: str) -> list[Scene]:
    """The scenes that the Manager lists for this tracker: those that name it as their member, or nobody."""
    found = []
    for listed in scenes(client):
        if not listed.get("paused") and listed.get("member") in (None, name):
            id = scene_id(listed)
            # An old Manager lists the cameras with the scene.
            found.append(Scene.of(id, listed) if "cameras" in listed else described(client, id))
    return found
