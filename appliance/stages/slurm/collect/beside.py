"""State of the controller and its database beyond slurm.conf: partitions, reservations, operators, limits."""

from __future__ import annotations

from functools import partial

from appliance.probe.lines import lines_of
from appliance.stages.slurm.collect.slurm import fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from appliance.probe.ask import Ask

    Pairs = Iterator[tuple[str, str]]
    Looks = dict[str, Callable[[], Pairs]]

COUNTS = frozenset({"Nodes", "TotalCPUs", "TotalNodes", "TRES"})
"""Fields of a partition that are sums over its hosts."""
NONE = "(null)"
LASTING = ("Nodes", "Users", "Accounts", "Flags", "Duration")
SHOW = ("sacctmgr", "-n", "-P", "show")
LIMITS = ("grptres", "grpjobs", "grpsubmit", "maxtres", "maxjobs", "maxsubmit", "maxwall")
QUALITY = ("priority", "flags", "grptres", "maxtrespu", "maxjobspu", "maxwall", "preempt")


def looks(ask: Ask) -> Looks:
    """Return kind -> its reader; none unless slurmctld runs."""
    if not ask.has("slurmctld"):
        return {}
    found = {
        "partition": _partitions,
        "reservation": _reservations,
        "operator": _operators,
        "account": _accounts,
        "QOS": _qualities,
        "trigger": _triggers,
    }
    return {f"Slurm {kind}": partial(look, ask) for kind, look in found.items()}


def _partitions(ask: Ask) -> Pairs:
    for said in map(fields, _lines(ask, "scontrol", "--oneliner", "show", "partition")):
        for key in said.keys() - COUNTS - {"PartitionName"}:
            yield f"{said['PartitionName']} {key}", said[key]


def _reservations(ask: Ask) -> Pairs:
    for said in map(fields, _lines(ask, "scontrol", "--oneliner", "show", "reservation")):
        told = [f"{key.lower()} {said[key]}" for key in LASTING if said.get(key, NONE) != NONE]
        if "ReservationName" in said:
            yield said["ReservationName"], ", ".join(told)


def _operators(ask: Ask) -> Pairs:
    """Return accounts with additional rights; ordinary accounts are not compared."""
    for line in _lines(ask, *SHOW, "user", "format=user,adminlevel"):
        name, _, level = line.partition("|")
        if level not in {"", "None"}:
            yield name, level


def _accounts(ask: Ask) -> Pairs:
    for line in _lines(ask, *SHOW, "assoc", "format=account,user,partition," + ",".join(LIMITS)):
        account, user, partition, *values = line.split("|")
        told = _told(LIMITS, values)
        if told or not user:
            yield " ".join(filter(None, (account, user, partition))), told or "no limit"


def _qualities(ask: Ask) -> Pairs:
    for line in _lines(ask, *SHOW, "qos", "format=name," + ",".join(QUALITY)):
        name, *values = line.split("|")
        yield name, _told(QUALITY, values) or "no limit"


def _triggers(ask: Ask) -> Pairs:
    """Return programs that the controller starts by itself, under its own account (strigger(1))."""
    said = ask.run(["strigger", "--get", "--noheader"], 8.0)
    for words in map(str.split, lines_of(said)):
        if len(words) > 6:
            yield words[-1], f"at {words[3]} of {words[1]} {words[2]}, of {words[5]}"


def _lines(ask: Ask, *argv: str) -> list[str]:
    said = lines_of(ask.run(argv, 8.0))
    return [line for line in said if "=" in line or "|" in line]


def _told(names: tuple[str, ...], values: list[str]) -> str:
    return ", ".join(f"{n} {v}" for n, v in zip(names, values) if v)  # noqa: B905 - Python 3.10's
