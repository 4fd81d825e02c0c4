"""Slurm through its own commands, on the host that runs the controller."""

from __future__ import annotations

import os
import re
import threading
import time

from appliance.probe import files
from appliance.probe.accounts import Accounts
from appliance.probe.ask import Ask, Once
from appliance.probe.lines import lines_of
from appliance.probe.problems import DENIED, Absent, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

PING = re.compile(r"Slurmctld\(primary\) at (\S+) is (UP|DOWN)")
FIELD = re.compile(r"(?:^| )([A-Z][A-Za-z]*)=")
CLUSTER = re.compile(r"^\s*ClusterName\s*=\s*(\S+)", re.M | re.I)
STATE = re.compile(r"^\s*StateSaveLocation\s*=\s*(/\S+)", re.M | re.I)
STORAGE = re.compile(r"^\s*AccountingStorageType\s*=\s*(\S+)", re.M | re.I)
SHOW = ("sacctmgr", "-n", "-P", "show")
LIMITS = (
    "GrpTRES",
    "GrpJobs",
    "GrpSubmit",
    "GrpWall",
    "MaxTRES",
    "MaxJobs",
    "MaxSubmit",
    "MaxWall",
    "GrpTRESMins",
    "GrpTRESRunMins",
    "MaxTRESMins",
    "MaxTRESPerNode",
)
"""Limits of an association, as named by sacctmgr."""
QOS_LIMITS = (
    "GrpTRES",
    "GrpJobs",
    "GrpSubmit",
    "GrpWall",
    "MaxTRESPU",
    "MaxTRES",
    "MaxJobsPU",
    "MaxSubmitPU",
    "MaxWall",
    "GrpTRESMins",
    "MaxTRESMins",
    "MaxTRESPerNode",
)
ASSOCIATION = "format=account,user,qos,defaultqos," + ",".join(LIMITS)
NOTHING = re.compile(r"(^|=)(0|00:0[0-4]:\d\d)$|^mem=(\d{1,2}M|\d{1,5}K|0)$")
"""Limits below the needs of any job: no resource, less than 5 minutes, or less than 100 MiB (own choice)."""
GPUS = re.compile(r"(?:^|,)gpu(?::[^:,(]+)?:(\d{1,9})(?=[,(]|$)")
CLOSED = "RequiresReservation"
"""Flag of a QOS whose jobs start only in a reservation."""
SETTINGS = (
    *(
        "MaxTime",
        "AllowGroups",
        "AllowAccounts",
        "AllowQos",
        "AllocNodes",
        "DenyAccounts",
        "DenyQos",
    ),
    *("RootOnly", "ReqResv", "MaxNodes", "MinNodes", "MaxCPUsPerNode", "QoS"),
    *("Default", "DefaultTime", "DisableRootJobs", "ExclusiveUser", "Hidden", "OverSubscribe"),
    *("MaxMemPerNode", "MaxMemPerCPU", "DefMemPerNode", "DefMemPerCPU", "PreemptMode"),
)
HASH = re.compile(r"^HASH_VAL\s*=\s*(.+)", re.M)
MOST_STUCK = 20
MOST_ROWS = 10_000
MOST_USERS, MOST_PARTITIONS = 3, 4
"""Maximum numbers of test submissions, which take some 0.04 s each."""
CONFIGURATIONS = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf")


LONGEST_REASON = 1000
MOST_RESERVATIONS = 200


def collect(ask: Ask) -> Facts:
    """The area ``slurm``; none if slurmctld is not installed."""
    if not ask.has("slurmctld"):
        return {"slurm": None}
    try:
        version = ask.run(["scontrol", "--version"]).split()[-1]
    except Absent as error:
        ask.problem("slurm", error)
        return {"slurm": None}
    configuration = next(filter(None, (files.text(ask.path(at)) for at in CONFIGURATIONS)), "")
    found: Facts = {"version": version, "controller": "not configured"}
    found["cluster"] = _known_as(ask, configuration)
    if configuration:
        # sacctmgr takes longer than all else that a host is asked.
        accounting, qualities = (
            Once(lambda: _accounting(ask, configuration)),
            Once(lambda: _qos(ask)),
        )
        for one in (accounting, qualities):
            threading.Thread(target=one.get, daemon=True).start()
        found["controller"] = _controller(ask)
        if found["controller"] == "up":
            found["nodes"] = _nodes(ask)
            found["partitions"] = _partitions(ask)
            found["configured"] = _configured(ask)
            found["stuck"] = _stuck(ask, found["nodes"] or [])
            found["reservations"] = _reservations(ask)
            found["submissions"] = _submissions(ask, found["partitions"] or [])
        found.update(accounting.get())
        found["qos"] = _too_large(qualities.get(), found.get("nodes") or [])
    return {"slurm": found}


def _known_as(ask: Ask, configuration: str) -> str:
    """Return the cluster's name in slurmctld's state folder; empty if there is none yet."""
    folder = STATE.search(configuration)
    if folder is None:
        return ""
    try:
        owner = int(Accounts(ask).users["slurm"][2])
        said = files.read(ask.path(folder[1] + "/clustername"), 256, owner).split()
    except (OSError, KeyError):
        return ""
    return said[0] if said else ""


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
    """Return up, down, or the output of ``scontrol ping``."""
    found = PING.search(said)
    return found.group(2).lower() if found else " ".join(said.split())[:200] or "no answer"


def nodes(said: str) -> list[Facts]:
    """Return the nodes of ``scontrol --oneliner show nodes``; memory in MiB.

    Raises Unreadable if the Extra or Comment of one node imitates the line of another.
    """
    found: dict[str, Facts] = {}
    for line in said.split("\n"):
        if line.startswith("NodeName="):
            try:
                one = node(line)
            except ValueError:
                raise Unreadable("scontrol lists a node with an invalid number") from None
            if found.setdefault(one["name"], one) is not one:
                raise Unreadable(
                    f"scontrol lists {one['name']} twice: the Extra or Comment of a node holds a line break"
                )
    return list(found.values())


def fields(line: str) -> dict[str, str]:
    """Parse a line of ``--oneliner``. A value may contain spaces; it ends at the next capitalised ``Name=``."""
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
        # Root of any host of the cluster writes there what it likes, and as much.
        "reason": said.get("Reason", "")[:LONGEST_REASON],
        "gres": "" if gres == "(null)" else gres,
        "cpus": int(said.get("CPUTot", "0")),
        "memory": int(said.get("RealMemory", "0")),
    }


def _partitions(ask: Ask) -> list[Facts] | None:
    try:
        said = ask.run(["scontrol", "--oneliner", "show", "partition"])
    except Unreadable as error:
        ask.problem("slurm", error)
        return None
    lines = [line for line in lines_of(said) if line.startswith("PartitionName=")]
    found = [partition(line) for line in lines]
    for one in [one for one in found if one["name"] not in ask.partitions][:MOST_PARTITIONS]:
        one["jobs"] = _jobs(ask, one["name"])
    return found


def _jobs(ask: Ask, partition: str) -> int | None:
    """Return the number of jobs in a partition that the site does not list; None: unknown."""
    if not ask.partitions:
        return 0
    try:
        return len(ask.run(["squeue", "--noheader", "--format=%i", f"--partition={partition}"]).split())  # fmt: skip
    except Unreadable as error:
        ask.problem("slurm", error)
        return None


def _reservations(ask: Ask) -> list[Facts] | None:
    try:
        said = ask.run(["scontrol", "--oneliner", "show", "reservation"])
    except Unreadable as error:
        ask.problem("slurm", error)
        return None
    lines = [line for line in lines_of(said) if line.startswith("ReservationName=")]
    return [reservation(line) for line in lines[:MOST_RESERVATIONS]]


def reservation(line: str) -> Facts:
    """One reservation; ``seconds``: its duration, None if it has no end."""
    said = fields(line)
    count = said.get("NodeCnt", "")
    names = {key: said.get(key, "").replace("(null)", "") for key in ("Users", "Accounts", "Nodes")}
    return {
        "name": said["ReservationName"],
        "active": said.get("State", "") == "ACTIVE",
        "users": names["Users"],
        "accounts": names["Accounts"],
        "nodes": names["Nodes"][:LONGEST_REASON],
        "node_count": int(count) if count.isdigit() else 0,
        "flags": said.get("Flags", ""),
        "ends": said.get("EndTime", ""),
        "duration": said.get("Duration", ""),
    }


def partition(line: str) -> Facts:
    """One partition, with the settings that exclude users or delay jobs."""
    said = fields(line)
    nodes = said.get("TotalNodes", "")
    return {
        "name": said["PartitionName"],
        "state": said.get("State", ""),
        "nodes": int(nodes) if nodes.isdigit() else 0,
        "settings": {key: said[key] for key in SETTINGS if key in said},
    }


def _submissions(ask: Ask, partitions: list[Facts]) -> list[Facts] | None:
    """Return test submissions: the first user tries each partition, the others the first one. ``--test-only`` starts and queues nothing."""
    if not ask.users or not partitions:
        return None
    if os.geteuid():
        ask.problem("slurm", "needs root to submit a job as a user", DENIED)
        return None
    known = Accounts(ask).users
    users = [name for name in ask.users if name in known][:MOST_USERS]
    if not users or not ask.has("sbatch") or not ask.has("setpriv"):
        return None
    names = [one["name"] for one in partitions[:MOST_PARTITIONS]]
    pairs = [(users[0], name) for name in names] + [(user, names[0]) for user in users[1:]]
    return [
        {"user": user, "partition": name, "refused": _refusal(ask, user, known[user][3], name)}
        for user, name in pairs
    ]


def _refusal(ask: Ask, user: str, group: str, name: str) -> str:
    """Return why Slurm would refuse a job of this user; empty if it would not."""
    job = ["sbatch", "--test-only", "--partition=" + name, "--chdir=/", "--wrap=true"]
    drop = [f"--reuid={user}", f"--regid={group}", "--init-groups"]
    as_user = [] if user == "root" else ["setpriv", *drop, "--reset-env"]
    try:
        ask.run([*as_user, *job], 5.0)
    except Unreadable as error:
        return str(error).rpartition("error: ")[2][:200]
    return ""


def _accounting(ask: Ask, configuration: str) -> Facts:
    """Read whether slurmdbd knows this cluster, and its associations; nothing without accounting."""
    cluster, storage = CLUSTER.search(configuration), STORAGE.search(configuration)
    if cluster is None or storage is None or not storage.group(1).endswith("slurmdbd"):
        return {}
    name = cluster.group(1).lower()
    try:
        rows = associations(ask.run([*SHOW, "assoc", f"cluster={name}", ASSOCIATION], 8.0))
        known = bool(rows) or name in ask.run([*SHOW, "cluster", "format=cluster"], 8.0).split()
    except Unreadable as error:
        ask.problem("slurm", error)
        return {"accounting": False}
    return {"accounting": known, "associations": rows, "read_only": _is_read_only(ask)}


def _is_read_only(ask: Ask) -> bool | None:
    """Whether the database on this host takes no records; None: unknown, as on another host."""
    try:
        return ask.run(["mysql", "-BNe", "select @@global.read_only"]).strip() in {"1", "ON"}
    except Unreadable:
        return None


def _configured(ask: Ask) -> str:
    """slurmctld's digest of its slurm.conf, where it is not that of the file; empty: the same, or unknown."""
    try:
        found = HASH.search(ask.run(["scontrol", "show", "config"]))
    except Unreadable:
        return ""
    return found[1][:100] if found and found[1].startswith("Different") else ""


def _stuck(ask: Ask, nodes: list[Facts]) -> list[Facts]:
    """Jobs that have ended and whose processes have not, with the seconds since."""
    if not any("completing" in one["state"] for one in nodes):
        return []
    try:
        said = ask.run(["squeue", "-h", "-t", "CG", "-o", "%i|%N|%e"])
    except Unreadable:
        return []
    rows = [line.split("|") for line in lines_of(said) if line.count("|") == 2]
    return [
        {"job": job[:40], "nodes": where[:200], "seconds": time.time() - _ended(end)}
        for job, where, end in rows[:MOST_STUCK]
        if _ended(end)
    ]


def _ended(said: str) -> float:
    """A time of Slurm's, in the host's time zone; 0 for none."""
    try:
        return time.mktime(time.strptime(said, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return 0.0


def _qos(ask: Ask) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return by QOS the limits that let no job run, and the minimums of each job."""
    try:
        said = ask.run([*SHOW, "qos", "format=name,flags,mintres," + ",".join(QOS_LIMITS)], 8.0)
    except Unreadable:
        return {}, {}  # as of accounting, which names the reason
    found: dict[str, list[str]] = {}
    least: dict[str, str] = {}
    rows = (line.split("|") for line in lines_of(said) if line.count("|") > 2)
    for name, flags, minimum, *values in rows:
        closed = ["Flags=" + CLOSED] if CLOSED in flags.split(",") else []
        if held := zeros(QOS_LIMITS, values) + closed:
            found[name] = held
        if minimum:
            least[name] = minimum
    return found, least


def _too_large(
    said: tuple[dict[str, list[str]], dict[str, str]], nodes: list[Facts]
) -> dict[str, list[str]]:
    """Return the limits, and minimums that exceed the whole cluster."""
    held, least = said
    there = {
        "cpu": sum(node["cpus"] for node in nodes),
        "node": len(nodes),
        "gres/gpu": sum(int(count) for node in nodes for count in GPUS.findall(node["gres"])),
    }
    for name, minimum in least.items():
        for part in minimum.split(","):
            kind, _, count = part.partition("=")
            if nodes and kind in there and count.isdigit() and int(count) > there[kind]:
                held.setdefault(name, []).append(f"MinTRES={part}")
    return held


def associations(said: str) -> list[Facts]:
    """Return the rows of ``sacctmgr show assoc``. Raises Unreadable if there are more than a site can have users."""
    rows = [line.split("|") for line in lines_of(said) if line.count("|") >= 4]
    if len(rows) > MOST_ROWS:
        raise Unreadable(f"sacctmgr lists {len(rows)} associations; {MOST_ROWS} are read at most")
    return [
        {
            "account": account,
            "user": user,
            "qos": [name for name in qos.split(",") if name],
            "default_qos": default,
            "zero": zeros(LIMITS, values),
        }
        for account, user, qos, default, *values in rows
    ]


def zeros(names: tuple[str, ...], values: list[str]) -> list[str]:
    """Return the limits that let no job run or end: GrpJobs=0, GrpTRES=gres/gpu=0, MaxWall=00:01:00."""
    found: list[str] = []
    for name, value in zip(names, values):  # noqa: B905 - zip(strict=) is Python 3.10's
        parts = value.split(",") if "=" in value else [value]
        found += [f"{name}={part}" for part in parts if NOTHING.search(part)]
    return found
