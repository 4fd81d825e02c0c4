"""Reboot hosts in waves."""

import time
from collections.abc import Callable, Sequence

from appliance.actions.hosts.waves import Work, Worked, in_waves, require_possible, waves
from appliance.actions.sites.opening import Target, open_session
from appliance.engine.host_names import named_hosts
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError, DeadlineExceeded
from appliance.models.events import Message, Observer
from appliance.models.site import Host

PATIENCE, PAUSE = 900.0, 3.0
"""Seconds until a machine has booted again, as large memory takes minutes to test; and between two looks."""
BOOT = (
    "cat /proc/sys/kernel/random/boot_id; systemctl show --property=UserspaceTimestampMonotonic;"
    " systemctl show --property=SystemState"
)
"""A machine's boot has its own id; a container's is that of its machine, but its systemd starts at another time."""


def reboot_hosts(
    target: Target,
    words: Sequence[str],
    observer: Observer,
    consent: Callable[[tuple[tuple[Host, ...], ...]], bool],
    minutes: float,
    *,
    everything: bool = False,
    at_once: int = 1,
    evict: bool = False,
    force: bool = False,
) -> tuple[tuple[Worked, ...], tuple[str, ...]] | None:
    """Reboot hosts in waves: what became of each, and the hosts that were not reached; None if declined.

    Raises ConfigError before any change for an unknown host, or one that another operator drained.
    """
    with open_session(target, "node", observer) as session:
        every = [host.name for host in session.site.hosts]
        names = tuple(every) if everything else named_hosts(words, every)
        plan = waves(session.site, names, at_once)
        require_possible(session, plan, force=force)
    if not consent(plan):
        return None
    work = Work("node reboot", "reboot", "rebooted", reboot_host)
    return in_waves(target, observer, plan, work, minutes, evict=evict)


def reboot_host(session: Session, name: str) -> ApplianceError | None:
    """Reboot a host and wait until it has booted; why it has not, or None."""
    try:
        before = _boot(session, name)
        # Without a delay, the connection ends before the answer.
        session.remote.run(name, ["systemd-run", "--quiet", "--on-active=1", "systemctl", "reboot"])
    except ApplianceError as error:
        return error
    session.tell(Message(text="reboots", host=name))
    session.remote.leave(name)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if session.cancelled.wait(PAUSE):
            break
        try:
            now = _boot(session, name)
        except ApplianceError:
            continue
        if now[:2] != before[:2] and now[2] not in {"initializing", "starting"}:
            session.tell(Message(text="has booted", host=name))
            return None
    return DeadlineExceeded(
        f"has not booted within {PATIENCE / 60:g} min", "look at its console", name
    )


def _boot(session: Session, name: str) -> tuple[str, str, str]:
    """The boot's id, the start of its userspace, and systemd's state."""
    done = session.remote.run(name, ["sh", "-c", BOOT], timeout=20)
    lines = [line.partition("=")[2] or line for line in done.stdout.split("\n")]
    if done.returncode or len(lines) < 3:
        raise ConfigError(f"{name}: systemd does not answer", "look at its console")
    return lines[0], lines[1], lines[2]
