"""Facts, stages and hosts made up for the engine's tests."""

from collections.abc import Callable, Sequence
from typing import Any

from appliance.adapters.process import Completed
from appliance.checks.check import ALL_ROLES
from appliance.errors import ConnectionFailed
from appliance.models.events import Event
from appliance.models.facts import Receipt
from appliance.stages.stage import Stage

PASSWORD = "s3cret-of-the-rack"


def receipt_of(stage: str, fingerprint: str, **more: object) -> Receipt:
    """A receipt as the probe reads it back."""
    return Receipt.model_validate(
        {
            "stage": stage,
            "fingerprint": fingerprint,
            "written": "2026-11-20T11:00:00+00:00",
            "run": "r0",
            "appliance": "0.1.0",
            "resources": 1,
            **more,
        }
    )


def stage_of(name: str, *after: str, **more: Any) -> Stage:
    """A stage on every host whose only variable is the host's name."""
    plain: dict[str, Any] = {
        "title": name,
        "roles": ALL_ROLES,
        "ansible_roles": (),
        "variables": lambda context: {"x_name": context.host.name},
        "judges": (),
        "minutes": 1.0,
        "settle_seconds": 0.0,
    }
    return Stage(name=name, after=after, **(plain | more))


class Recorder:
    """Remembers every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def handle(self, event: Event) -> None:
        """Keeps it."""
        self.events.append(event)


class FakeHosts:
    """Answers by a function of host and argv; hosts in ``down`` do not."""

    def __init__(self, answer: Callable[[str, Sequence[str]], Completed] | None = None) -> None:
        self.answer = answer or (lambda host, argv: Completed(tuple(argv), 0, "", ""))
        self.down: set[str] = set()
        self.calls: list[tuple[str, tuple[str, ...], bytes]] = []
        self.left: list[str] = []

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        """See Remote."""
        self.reach(host)
        self.calls.append((host, tuple(argv), input or b""))
        return self.answer(host, argv)

    def reach(self, host: str) -> None:
        """See Reachable."""
        if host in self.down:
            raise ConnectionFailed("it does not answer", "power it on", host)

    def leave(self, host: str) -> None:
        """See Reachable."""
        self.left.append(host)
