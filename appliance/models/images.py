"""Container images that run on a cluster, and those somebody accepted."""

import re
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from appliance.models.base import Model
from appliance.models.line import Line
from appliance.models.texts import HOSTS, ImageName

IDENTITY = r"^(digest|id) sha256:[0-9a-f]{64}$"
LOCAL = re.compile(r"(?:docker://)?(sha256:[0-9a-f]{64})")
FETCHED = re.compile(r"[^@]+@(sha256:[0-9a-f]{64})")
Identity = Annotated[str, Field(pattern=IDENTITY)]


class Held(StrEnum):
    """By what an image that runs is held to be the right one."""

    NAME = "its name"
    LOCK = "images.lock"
    NOTHING = "nothing"
    DIFFERS = "differs from images.lock"
    UNKNOWN = "cannot be compared"


class RunningImage(Model):
    """An image by the name pods ask for it. ``identity``: what runs; "" where the host does not say it."""

    image: Line
    identity: Line
    hosts: tuple[Line, ...]
    held: Held = Held.NOTHING

    @property
    def is_wrong(self) -> bool:
        """Another was accepted."""
        return self.held is Held.DIFFERS


class ImageLock(Model):
    """What was accepted: what runs, by the name pods ask for it."""

    version: Literal[1]
    images: Annotated[dict[ImageName, Identity], Field(max_length=HOSTS)]

    def holds(self, image: str, identity: str) -> Held:
        """Whether it is the one that was accepted."""
        accepted = self.images.get(image)
        if accepted is None:
            return Held.NOTHING
        if kind(accepted) != kind(identity):
            return Held.UNKNOWN
        return Held.LOCK if accepted == identity else Held.DIFFERS


def identity_of(image_id: str) -> str:
    """Of a pod's ``imageID``: "digest sha256:..." as a registry has it, "id sha256:..." of one imported from an archive.

    containerd gives a registry's digest where it has one, else the digest of the image's configuration; these are no more
    alike than two images are. "" where it is neither.
    """
    if found := FETCHED.fullmatch(image_id):
        return f"digest {found[1]}"
    found = LOCAL.fullmatch(image_id)
    return f"id {found[1]}" if found else ""


def kind(identity: str) -> str:
    """Identities of one kind can be compared."""
    return identity.partition(" ")[0]


def short(identity: str) -> str:
    """Enough of it to tell it from another."""
    return identity.partition(" ")[2][: len("sha256:") + 12]


def is_pinned(image: str) -> bool:
    """Whether its name carries the digest: the host refuses any other."""
    return "@sha256:" in image


def full(image: str) -> str:
    """As containerd completes what a pod asks for: registry, project and tag written out."""
    first, slash, _ = image.partition("/")
    if not slash:
        image = f"docker.io/library/{image}"
    elif first != "localhost" and not re.search(r"[.:]", first):
        image = f"docker.io/{image}"
    tagged = ":" in image.rpartition("/")[2] or "@" in image
    return image if tagged else f"{image}:latest"
