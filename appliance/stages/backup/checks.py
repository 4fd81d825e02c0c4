"""Checks backups: the last successful one is recent, and the target accepts them."""

from collections.abc import Iterator

from appliance.checks.causes import Cause
from appliance.checks.check import (
    CONTROL_HOSTS,
    Check,
    HostCheck,
    Nature,
    View,
    failed,
    not_assessed,
    passed,
)
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement
from appliance.models.site import Host
from appliance.stages.backup import ids
from appliance.stages.backup.facts import Backup
from appliance.stages.base.causes import unit_failed

TIMER = "appliance-backup.timer"
UNITS = (TIMER, "appliance-backup.service")
"""What the probe must read."""
LATE = 2
"""Own choice: a missed backup is tried again at the next interval."""
SPARE_S = 300.0
LOG = "journalctl -u appliance-backup"
NOW = "appliance backup create"
TARGET, NEW = "target", "new"
"""Kinds of problems that the program notes."""
RESTORE = "appliance backup restore latest --identity FILE"
START_OVER = "appliance backup create --force"


def _known(facts: HostFacts, host: Host) -> tuple[Backup | None, Iterator[Judgement]]:
    if facts.backup is not None:
        return facts.backup, iter(())
    why = facts.gap("backup", "the program is not installed")
    fix = f"appliance deploy --stage backup --hosts {host.name}"
    return None, iter((not_assessed(host.name, why, fix=fix),))


def _age(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    given = view.site.backup
    seen, unknown = _known(facts, host)
    if given is None or seen is None:
        yield from unknown
        return
    most = LATE * given.minutes * 60 + SPARE_S
    said = {"unit": "min", "limit": round(most / 60), "limit_source": "twice backup.every"}
    because = f": {seen.problem}" if seen.problem else ""
    fix = f"on {host.name}: {LOG}; then {NOW}"
    if seen.kind == NEW:
        fix = f"{RESTORE}; to start over without the old accounting: {START_OVER}"
    timer = facts.units.get(TIMER)
    if not because and timer is not None and timer.active not in {"active", "unknown"}:
        because = f": {TIMER} is {timer.active}"
        fix = f"on {host.name}: systemctl enable --now {TIMER}; then {NOW}"
    if seen.kind == NEW:
        yield failed(host.name, f"no backup is written{because}", fix, **said)
    elif seen.age_s is None:
        yield failed(host.name, f"there is no backup of this host{because}", fix, **said)
    elif seen.age_s > most:
        minutes = round(seen.age_s / 60)
        cause = f"the last good backup is {minutes} minutes old{because}"
        yield failed(host.name, cause, fix, value=minutes, **said)
    else:
        yield passed(host.name, round(seen.age_s / 60), evidence=seen.name, **said)


def _target(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    given = view.site.backup
    seen, unknown = _known(facts, host)
    if given is None or seen is None:
        yield from unknown
    elif seen.tried_s is None:
        fix = f"{NOW}; then on {host.name}: {LOG}"
        yield not_assessed(host.name, "no backup has been tried yet", fix=fix)
    elif seen.problem and seen.kind == TARGET:
        fix = f"check {given.target}: its server, the key backup_ssh_key in authorized_keys, its free space; then {NOW}"
        yield failed(host.name, f"{given.target}: {seen.problem}", fix)
    elif seen.problem and seen.kind != NEW:
        fix = f"on {host.name}: {LOG}; then {NOW}"
        yield not_assessed(
            host.name, f"the last try failed before the end: {seen.problem}", fix=fix
        )
    else:
        yield passed(host.name, given.target)


CHECKS: tuple[Check, ...] = (
    HostCheck(
        ids.TARGET,
        "The target takes backups",
        CONTROL_HOSTS,
        _target,
        "The last try to write a backup, compare what the target returns, and remove old backups. Usual causes of a failure: the server is "
        "down, the login key is not authorized there, its disk is full, or nothing is mounted.",
        "the last backup was written and read back",
        nature=Nature.SYMPTOM,
        explains=(unit_failed("appliance-backup"),),
    ),
    HostCheck(
        ids.AGE,
        "The last backup is recent",
        CONTROL_HOSTS,
        _age,
        "The age of the last backup that was written, read back from the target and found equal. If it is late, the disk of this host holds "
        "accounting that no other machine has.",
        "twice backup.every of the site, and 5 minutes",
        causes=(Cause(ids.TARGET, "without its target no backup is written"),),
        explains=(unit_failed("appliance-backup"),),
    ),
)
