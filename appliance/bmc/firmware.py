"""Firmware of one machine: which components are older than the profile's, and an update that is watched to its end.

The BMC fetches the image itself (SimpleUpdate of UpdateService, DSP2062). It answers with a task, or a monitor of one.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from appliance.adapters.redfish import (
    Controller,
    Document,
    EmptyAnswer,
    Patience,
    Redfish,
    ResourceFailed,
)
from appliance.bmc.checks.firmware import BIOS, CONTROLLER, at_least
from appliance.bmc.document import link, named_fields, objects, section, text
from appliance.bmc.inventory import main_system, manager_of
from appliance.bmc.reader import Reader
from appliance.errors import ApplianceError, ConnectionFailed, DeadlineExceeded
from appliance.models.profile import ServerModel
from appliance.text import one_line, shortened

UPDATE = "#UpdateService.SimpleUpdate"
GONE = 404
RUNNING = 202
GOOD_STATES = frozenset({"Completed"})
BAD_STATES = frozenset({"Exception", "Killed", "Cancelled", "Interrupted", "Suspended"})
"""States of a task that do not change by themselves (Task schema, TaskState)."""
TOLD = 200
BY_HAND = "update it on the web page of the BMC, or with the vendor's tool"


class TaskFailed(ApplianceError):
    """A task ended without success."""


@dataclass(frozen=True)
class Component:
    """One item of the firmware inventory. ``path``: of its resource; empty for what the inventory does not list."""

    name: str
    version: str
    path: str = ""


@dataclass(frozen=True)
class FirmwareRead:
    """A machine's firmware. ``service``: the target of SimpleUpdate, empty if the BMC has none."""

    model: str
    components: Mapping[str, Component]
    service: str


@dataclass(frozen=True)
class FirmwareChange:
    """A component that is older than in the profile. ``image``: where the BMC fetches it, empty if none is given."""

    component: Component
    wanted: str
    image: str

    def __str__(self) -> str:
        return f"{self.component.name}: {self.component.version} -> {self.wanted}"


@dataclass(frozen=True)
class Watching:
    """Timeouts of one update, in seconds: a BMC that updates itself does not answer for minutes."""

    whole: float = 3600.0
    read_back: float = 900.0
    pause: float = 10.0


def look(known: Controller, patience: Patience | None = None) -> FirmwareRead:
    """Raises ApplianceError if the BMC shows no firmware."""
    with Redfish(known, patience) as controller:
        root = controller.root()
        controller.log_in(root)
        reader = Reader(controller)
        system, _ = main_system(reader, root)
        manager = manager_of(reader, root, system)
        at = link(root, "UpdateService")
        service = controller.get(at) if at else {}
        found: dict[str, Component] = {}
        inventory = link(service, "FirmwareInventory")
        for item in _members(controller, inventory) if inventory else ():
            name, version = named_fields(item)["name"], one_line(text(item, "Version"))
            if version and not text(item, "Id").startswith("Previous"):
                found.setdefault(name, Component(name, version, text(item, "@odata.id")))
        own = {BIOS: text(system, "BiosVersion"), CONTROLLER: text(manager, "FirmwareVersion")}
        for name, version in own.items():
            if version:
                found.setdefault(name, Component(name, one_line(version)))
        if not found:
            raise ApplianceError("its BMC lists no firmware", BY_HAND)
        target = text(section(service, "Actions", UPDATE), "target")
        return FirmwareRead(one_line(text(system, "Model")), found, target)


def _members(controller: Redfish, path: str) -> list[Document]:
    """The items of a collection. Raises ResourceFailed: a component that is not read must not look absent."""
    found: list[Document] = []
    while path:
        page = controller.get(path)
        found += [controller.get(text(one, "@odata.id")) for one in objects(page, "Members")]
        path = text(page, "Members@odata.nextLink")
    return found


def older(found: FirmwareRead, server: ServerModel) -> tuple[FirmwareChange, ...]:
    """What is older than the profile's version. Raises ApplianceError for a component that is unknown or not comparable."""
    changes = []
    for name, wanted in server.firmware.items():
        component = found.components.get(name)
        enough = at_least(component.version, wanted) if component else None
        if component is None or enough is None:
            seen = f"{name} {component.version}" if component else f"no {name}"
            raise ApplianceError(
                f"its BMC reports {seen}, which cannot be compared with {wanted}",
                "write components and versions in the profile as shown by appliance discover --json",
            )
        if not enough:
            changes.append(FirmwareChange(component, wanted, server.images.get(name, "")))
    return tuple(changes)


def start(known: Controller, change: FirmwareChange, patience: Patience) -> str:
    """Orders one update; returns the path of its task, or of its monitor. Raises ApplianceError."""
    with Redfish(known, patience) as controller:
        root = controller.root()
        controller.log_in(root)
        service = controller.get(link(root, "UpdateService"))
        target = text(section(service, "Actions", UPDATE), "target")
        if not target:
            raise ApplianceError("its BMC has no SimpleUpdate", BY_HAND)
        body: Document = {"ImageURI": change.image}
        if change.component.path:
            body["Targets"] = [change.component.path]
        answer = controller.post(target, body)
        path = urlsplit(answer.headers.get("Location", "")).path
        if not path:
            raise ApplianceError(
                f"its BMC accepted the update of {change.component.name}, but named no task",
                "look at the tasks on the web page of the BMC, then: appliance bios firmware",
            )
        return path


def watch(
    known: Controller,
    path: str,
    patience: Patience,
    watching: Watching,
    cancelled: Callable[[], bool],
) -> bool:
    """Follows a task to its end; False: the BMC no longer knows it. Raises ApplianceError for a failed task.

    A BMC that updates itself is away for minutes, and may forget its tasks when it starts again.
    """
    ends = time.monotonic() + watching.whole
    while True:
        seen = _seen(known, path, patience)
        if isinstance(seen, bool):
            return seen
        if cancelled():
            raise ApplianceError(
                f"interrupted while task {path} runs", "run the command again: it is continued"
            )
        if time.monotonic() > ends:
            raise DeadlineExceeded(
                f"task {path} has not ended after {watching.whole:g} s ({seen})",
                "look at it on the web page of the BMC, then run the command again",
            )
        time.sleep(watching.pause)


def _seen(known: Controller, path: str, patience: Patience) -> bool | str:
    """Whether a task has ended well (True), is unknown (False), or its state. Raises TaskFailed."""
    try:
        with Redfish(known, patience) as controller:
            controller.log_in(controller.root())
            task = controller.get(path)
    except EmptyAnswer as error:
        return "running" if error.status == RUNNING else True
    except ResourceFailed as error:
        return False if error.status == GONE else error.message
    except (ConnectionFailed, DeadlineExceeded) as error:
        return error.message
    state = text(task, "TaskState")
    if state in BAD_STATES:
        raise TaskFailed(
            f"task {path} ended as {state}{_messages(task)}",
            "correct that, then run the command again",
        )
    # A monitor that has ended returns the result of the action, which is no task.
    return True if state in GOOD_STATES or not state else state


def await_version(
    known: Controller,
    change: FirmwareChange,
    patience: Patience,
    watching: Watching,
    cancelled: Callable[[], bool],
) -> str:
    """The component's version once it is new enough, or what it still is after the timeout ("": unknown)."""
    ends = time.monotonic() + watching.read_back
    version = ""
    while True:
        try:
            found = look(known, patience).components.get(change.component.name)
            version = found.version if found else ""
        except ApplianceError:
            # The BMC, or its inventory, is not ready again.
            version = ""
        if is_new_enough(version, change.wanted) or cancelled() or time.monotonic() > ends:
            return version
        time.sleep(watching.pause)


def is_new_enough(version: str, wanted: str) -> bool:
    """Whether a version was read, and is at least the other."""
    return bool(version) and at_least(version, wanted) is True


def _messages(task: Document) -> str:
    said = (one_line(text(message, "Message")) for message in objects(task, "Messages"))
    found = "; ".join(filter(None, said))
    return f": {shortened(found, TOLD)}" if found else ""
