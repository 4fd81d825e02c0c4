"""Slurm through its own commands, on the host that runs the controller."""

from __future__ import annotations

import re
import threading

from appliance.probe import files
from appliance.probe.ask import Ask, Once
from appliance.probe.problems import Absent, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

PING = re.compile(r"Slurmctld\(primary\) at (\S+) is (UP|DOWN)")
FIELD = re.compile(r"(?:^| )([A-Z][A-Za-z]*)=")
CLUSTER = re.compile(r"^\s*ClusterName\s*=\s*(\S+)", re.M | re.I)
STORAGE = re.compile(r"^\s*AccountingStorageType\s*=\s*(\S+)", re.M | re.I)
CONFIGURATIONS = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf")


def collect(ask: Ask) -> Facts:
    """The area ``slurm``; nothing where slurmctld is not installed."""
    if not ask.has("slurmctld"):
        return {"slurm": None}
    try:
        version = ask.run(["scontrol", "--version"]).split()[-1]
    except Absent as error:
        ask.problem("slurm", error)
        return {"slurm": None}
    configuration = next(filter(None, (files.text(ask.path(at)) for at in CONFIGURATIONS)), "")
    found: Facts = {"version": version, "controller": "not configured"}
    if configuration:
        # sacctmgr takes longer than all else that a host is asked.
        accounting = Once(lambda: _accounting(ask, configuration))
        threading.Thread(target=accounting.get, daemon=True).start()
        found["controller"] = _controller(ask)
        if found["controller"] == "up":
            found["nodes"] = _nodes(ask)
        found["accounting"] = accounting.get()
    return {"slurm": found}


def _nodes(ask: Ask) -> list[Facts] | None:
    try:
        return nodes(ask.run(["scontrol", "--oneliner", "show", "nodes"]))
    except Unreadable as error:
        ask.problem("slurm", error)
        return None


def _controller(ask: Ask) -> str:
    try:
        return ping(ask.run(["scontrol", "ping"], 5.0, (0, 1)))
    except Unreadable as error:
        return str(error)


def ping(said: str) -> str:
    """up, down, or what ``scontrol ping`` said instead."""
    found = PING.search(said)
    return found.group(2).lower() if found else " ".join(said.split())[:200] or "no answer"


def nodes(said: str) -> list[Facts]:
    """The lines of ``scontrol --oneliner show nodes``; memory in MiB, as Slurm counts.

    Raises Unreadable where a line of one node is made up in the Extra or Comment of another, by whoever may change that one.
    """
    found: dict[str, Facts] = {}
    for line in said.split("\n"):
        if line.startswith("NodeName="):
            try:
                one = node(line)
            except ValueError:
                raise Unreadable("scontrol lists a node with a number that is none") from None
            if found.setdefault(one["name"], one) is not one:
                raise Unreadable(
                    f"scontrol lists {one['name']} twice: the Extra or Comment of a node holds a line break"
                )
    return list(found.values())


def fields(line: str) -> dict[str, str]:
    """A line of ``--oneliner``. A value may hold spaces; it ends where the next capitalised ``Name=`` begins."""
    marks = list(FIELD.finditer(line))
    ends = [mark.start() for mark in marks[1:]] + [len(line)]
    found: dict[str, str] = {}
    for mark, end in zip(marks, ends):  # noqa: B905 - zip(strict=) is Python 3.10's
        found.setdefault(mark.group(1), line[mark.end() : end].strip())
    return found


def node(line: str) -> Facts:
    """One node."""
    said = fields(line)
    gres = said.get("Gres", "")
    return {
        "name": said["NodeName"],
        "state": said.get("State", "").lower(),
        "reason": said.get("Reason", ""),
        "gres": "" if gres == "(null)" else gres,
        "cpus": int(said.get("CPUTot", "0")),
        "memory": int(said.get("RealMemory", "0")),
    }


def _accounting(ask: Ask, configuration: str) -> bool | None:
    """Whether slurmdbd knows this cluster; None where no accounting is configured."""
    cluster, storage = CLUSTER.search(configuration), STORAGE.search(configuration)
    if cluster is None or storage is None or not storage.group(1).endswith("slurmdbd"):
        return None
    try:
        said = ask.run(["sacctmgr", "-n", "-P", "show", "cluster", "format=cluster"], 8.0)
    except Unreadable as error:
        ask.problem("slurm", error)
        return False
    return cluster.group(1).lower() in said.lower().split()
