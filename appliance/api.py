"""The Python interface of the program: a site, its plan, its health, and the events of a run.

docs/api.md describes it and its compatibility. Every error that a user can cause is an ApplianceError. Nothing here changes a host.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from appliance.actions.deployment import plan as plan_action
from appliance.actions.monitoring import health as health_action
from appliance.actions.sites import inventory as inventory_action
from appliance.actions.sites.opening import Target, locate
from appliance.cli.machine import of_machine
from appliance.engine.plan.selection import Filters
from appliance.errors import ApplianceError, ConfigError, ConnectionFailed, LockedError
from appliance.hidden import hidden
from appliance.models.events import Event
from appliance.models.plan import Action, HostStage, Plan
from appliance.models.result import CheckResult, Status, Verdict
from appliance.models.site import Host, Owner, Role
from appliance.report.advice import told
from appliance.report.documents import Health

__all__ = [
    "VERSION",
    "Action",
    "ApplianceError",
    "CheckResult",
    "ConfigError",
    "ConnectionFailed",
    "Event",
    "Health",
    "Host",
    "HostStage",
    "LockedError",
    "Owner",
    "Plan",
    "Role",
    "Site",
    "Status",
    "Verdict",
    "read_events",
]

VERSION: Final = 1
"""Increases if a name is removed or changes its meaning."""

T = TypeVar("T")
OnEvent = Callable[[Event], None]
_EVENTS: TypeAdapter[Event] = TypeAdapter(Event)


class Site:
    """A site's folder. The files are read and judged when it is created, and again by each method that contacts hosts.

    Raises ConfigError, with all findings, if a file is missing or invalid.
    """

    def __init__(self, folder: str | PathLike[str], profile: str | None = None) -> None:
        self._target = Target(Path(fspath(folder)), profile)
        with _own_errors():
            self._loaded = locate(self._target)

    @property
    def name(self) -> str:
        """The name of the site."""
        return self._loaded.site.name

    @property
    def folder(self) -> Path:
        """The absolute path of its folder."""
        return self._loaded.folder

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Its machines, in the order of site.yml."""
        return tuple(self._loaded.site.hosts)

    def class_of(self, host: str) -> str:
        """The hardware class of a host, by the host's name."""
        return self._loaded.profile_of(host).name

    def plan(
        self,
        *,
        limit: Iterable[str] = (),
        stages: Iterable[str] = (),
        until: str | None = None,
        full: bool = False,
        on_event: OnEvent | None = None,
    ) -> Plan:
        """What a deployment would do now. The arguments are the options of ``appliance plan``.

        A host that does not answer is ``unreachable`` in the plan. ``on_event`` is called from any thread, and must not raise.
        """
        filters = Filters(tuple(limit), tuple(stages), until, full)
        with _own_errors():
            return self._told(plan_action.make(self._target, filters, _Observer(on_event)))

    def health(
        self,
        *,
        hosts: Iterable[str] = (),
        checks: Iterable[str] = (),
        on_event: OnEvent | None = None,
    ) -> Health:
        """The results of the checks now. ``checks``: ids or areas, such as "gpu"; empty means all."""
        with _own_errors():
            seen = health_action.look(
                self._target, _Observer(on_event), tuple(checks), tuple(hosts)
            )
            return self._told(health_action.document_of(seen))

    def ansible_inventory(self) -> dict[str, object]:
        """The document of ``appliance inventory --ansible``."""
        with _own_errors():
            return inventory_action.ansible_tree(self._loaded)

    def prometheus_targets(self) -> list[dict[str, object]]:
        """The document of ``appliance inventory --prometheus-sd``."""
        with _own_errors():
            return inventory_action.prometheus_targets(self._loaded)

    def _told(self, value: T) -> T:
        """Without secrets, and with the site in each command of a remedy."""
        return told(hidden(value), self._target.address.absolute())


def read_events(lines: Iterable[str]) -> Iterator[Event]:
    """The events that ``appliance deploy --json`` prints, one for each line. Raises ApplianceError for any other line."""
    for number, line in enumerate(lines, 1):
        try:
            event = _EVENTS.validate_json(line)
        except ValidationError as error:
            raise ApplianceError(
                f"line {number} is not an event of this version: {error.errors()[0]['msg']}",
                "read the events with the version of the program that wrote them",
            ) from None
        yield event


class _Observer:
    def __init__(self, on_event: OnEvent | None) -> None:
        self._on_event = on_event

    def handle(self, event: Event) -> None:
        """Passes the event on."""
        if self._on_event:
            self._on_event(event)


@contextmanager
def _own_errors() -> Iterator[None]:
    """Errors of the machine, such as a full disk, are ApplianceErrors, too. The caller's hooks for uncaught errors are kept."""
    hooks: Any = sys.excepthook, threading.excepthook
    try:
        yield
    except (OSError, MemoryError, RuntimeError) as error:
        if not (trouble := of_machine(error)):
            raise
        message, _, hint = trouble.partition("\n  fix: ")
        raise ApplianceError(message, hint) from error
    finally:
        sys.excepthook, threading.excepthook = hooks
