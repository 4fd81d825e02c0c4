"""Container images that run on a cluster, and the accepted ones."""

import re
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from appliance.models.base import Model
from appliance.models.line import Line
from appliance.models.text_types import HOSTS, ImageName

IDENTITY = r"^(digest|id) sha256:[0-9a-f]{64}$"
LOCAL = re.compile(r"(?:docker://)?(sha256:[0-9a-f]{64})")
FETCHED = re.compile(r"[^@]+@(sha256:[0-9a-f]{64})")
Identity = Annotated[str, Field(pattern=IDENTITY)]


class Held(StrEnum):
    """How a running image is verified."""

    NAME = "its name"
    LOCK = "images.lock"
    NOTHING = "nothing"
    DIFFERS = "differs from images.lock"
    UNKNOWN = "cannot be compared"


class RunningImage(Model):
    """An image by its name in pods. ``identity``: what runs; "" if the host does not report it."""

    image: Line
    identity: Line
    hosts: tuple[Line, ...]
    held: Held = Held.NOTHING

    @property
    def is_wrong(self) -> bool:
        """Another one was accepted."""
        return self.held is Held.DIFFERS


class ImageLock(Model):
    """What was accepted: the identity of the image, by its name in pods."""

    version: Literal[1]
    images: Annotated[dict[ImageName, Identity], Field(max_length=HOSTS)]

    def holds(self, image: str, identity: str) -> Held:
        """Whether it is the accepted one."""
        accepted = self.images.get(image)
        if accepted is None:
            return Held.NOTHING
        if kind(accepted) != kind(identity):
            return Held.UNKNOWN
        return Held.LOCK if accepted == identity else Held.DIFFERS


def identity_of(image_id: str) -> str:
    """Of a pod's ``imageID``: "digest sha256:..." from a registry, "id sha256:..." if imported from an archive.

    containerd reports a registry's digest if it has one, else the digest of the image's configuration; the two cannot be
    compared. "" for anything else.
    """
    if found := FETCHED.fullmatch(image_id):
        return f"digest {found[1]}"
    found = LOCAL.fullmatch(image_id)
    return f"id {found[1]}" if found else ""


def kind(identity: str) -> str:
    """Identities of one kind can be compared."""
    return identity.partition(" ")[0]


def short(identity: str) -> str:
    """A distinguishing prefix."""
    return identity.partition(" ")[2][: len("sha256:") + 12]


def is_pinned(image: str) -> bool:
    """Whether its name contains the digest: the host refuses any other."""
    return "@sha256:" in image


def full(image: str) -> str:
    """As completed by containerd: with registry, project and tag."""
    first, slash, _ = image.partition("/")
    if not slash:
        image = f"docker.io/library/{image}"
    elif first != "localhost" and not re.search(r"[.:]", first):
        image = f"docker.io/{image}"
    tagged = ":" in image.rpartition("/")[2] or "@" in image
    return image if tagged else f"{image}:latest"
