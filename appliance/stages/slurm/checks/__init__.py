"""Checks Slurm by its controller: daemons, hosts, GPUs, accounting."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from appliance.checks.causes import (
    SILENT,
    UNASKED,
    Cause,
    Effect,
    Reach,
    both,
    is_of,
    names_only,
    no_value,
    on,
)
from appliance.checks.check import (
    Check,
    ClusterCheck,
    HostCheck,
    Nature,
    View,
    failed,
    not_assessed,
    passed,
    warned,
)
from appliance.models.drain import CONTRADICTS, GIVEN_AWAY, HEALTH, Maintenance, Why
from appliance.models.facts import HostFacts
from appliance.models.gap import Gap
from appliance.models.gpu_counts import gpu_count
from appliance.models.result import Judgement, Kind, Place, Status, place
from appliance.models.site import Host, Owner, Role, Site
from appliance.stages.base import ids as base_ids
from appliance.stages.base.causes import FULL_DISK, OWN_FOLDER, unit_failed
from appliance.stages.base.checks.neighbours import removal
from appliance.stages.gpu import ids as gpu_ids
from appliance.stages.maintenance import in_maintenance
from appliance.stages.slurm import ids
from appliance.stages.slurm.causes import NO_CONTROLLER, NO_MUNGE, UNFIT, short_of_gpus
from appliance.stages.slurm.facts import Slurm, SlurmNode, SlurmPartition
from appliance.stages.slurm.variables import gpus_offered
from appliance.stages.units import revived
from appliance.text import plural
from appliance.watch.hardware import BY_OPERATORS

DEPLOY = "appliance deploy"
WORKING = frozenset({"idle", "mixed", "allocated", "completing", "planned", "reserved"})
SLOW_END_S = 120
AT_WORK = frozenset({"allocated", "mixed", "completing"})
"""State words of a node that runs a job."""
NO_JOBS = "no jobs on hosts and in partitions that leave"
STAY = (
    "list {0} in slurm.partitions, too, until squeue --partition={0} shows no job; to end its jobs, on the first control host: "
    "scancel --partition={0}"
)
LEAVE = (
    "scontrol update nodename={} state=drain reason=leaves, on the first control host; deploy when squeue "
    "shows none of their jobs, or add them to the site again"
)
MAINTENANCE = frozenset({"maint", "maintenance"})
"""State of a node in a reservation with flag MAINT, as in sinfo and scontrol; state=resume does not end it."""
OUT = ("down", "drained", "draining", "drain", "fail", "failing", "error", "inval", "invalid_reg")
SLURMCTLD, SLURMDBD = 6817, 6819
MUNGE_KEY = ("file", "/etc/munge/munge.key")
"""Path of munge's key in receipts, whose difference is found without reading its content."""
TOO_FEW = "gres/gpu count"
"""Part of slurmctld's reason for a node that registers with fewer GPUs than in slurm.conf."""
SHORT = re.compile(r"gres/gpu count reported lower than configured \(([0-9]{1,9}) < ([0-9]{1,9})\)")
"""slurmctld's reason for a node whose slurmd found fewer GPUs than in slurm.conf."""
UNITS = (
    "munge.service",
    "slurmctld.service",
    "slurmdbd.service",
    "mariadb.service",
    "slurmd.service",
)
"""What the probe must read."""


def controller_of(view: View) -> Host | None:
    """Return the host that runs slurmctld: the first control host."""
    return next(iter(view.site.with_role(Role.CONTROL)), None)


def state_words(state: str) -> frozenset[str]:
    """Return the words of a node state, such as ``IDLE+DRAIN`` or ``down*``, in lower case and without Slurm's suffixes."""
    words = re.sub(r"[^a-z_+]", "", state.lower()).split("+")
    return frozenset(filter(None, words)) | ({"not_responding"} if "*" in state else frozenset())


def is_out(state: str) -> bool:
    """Return whether Slurm starts no job on a node in this state."""
    return not state_words(state).isdisjoint(OUT)


def gpus_in(gres: str) -> int:
    """Return the GPUs of a Gres field such as ``gpu:a100:8(S:0-1),nic:2``."""
    counts = re.findall(r"(?:^|,)gpu(?::[^:,(]+)?:([0-9]{1,9})(?=[,(]|$)", gres)
    return sum(map(int, counts))


def slurm_of(view: View) -> tuple[Slurm | None, Gap]:
    """Return the controller's facts of Slurm, or the reason why they are unknown."""
    host = controller_of(view)
    if host is None:
        return None, Gap("no host has the role control")
    facts = view.facts.get(host.name)
    if facts is None:
        return None, Gap(f"{host.name}, the controller, did not answer", (host.name,))
    if facts.slurm is None:
        return None, facts.gap("slurm", f"{host.name} has no Slurm commands")
    return facts.slurm, Gap("")


def _controller(view: View) -> Iterator[Judgement]:
    slurm, why = slurm_of(view)
    if slurm is None or not slurm.controller:
        none = Gap("scontrol ping did not answer")
        yield not_assessed("cluster", why if slurm is None else none)
    elif slurm.controller.lower() == "up" and slurm.configured:
        head = getattr(controller_of(view), "name", "")
        yield failed(
            place("cluster", "slurm.conf"),
            "slurmctld runs with other settings than its slurm.conf: the file was changed or restored after slurmctld read it",
            f"on {head}: systemctl restart slurmctld, which reads the file; jobs continue",
            value=slurm.configured,
            limit="the digest of the file",
            evidence="HASH_VAL of scontrol show config",
            names=(head,),
        )
    elif slurm.controller.lower() == "up":
        yield passed("cluster", "up", limit="up", evidence="scontrol ping")
    else:
        head = getattr(controller_of(view), "name", "")
        yield failed(
            "cluster",
            f"slurmctld does not answer: {slurm.controller}",
            _opened(view, head, SLURMCTLD)
            or f"on {head}: systemctl restart slurmctld; if it does not start, journalctl -u slurmctld shows why",
            value=slurm.controller,
            limit="up",
            evidence="scontrol ping",
            names=tuple(filter(None, [getattr(controller_of(view), "name", "")])),
        )


def _nodes(view: View) -> Iterator[Judgement]:
    nodes, why = listed_by(view)
    for host in view.site.with_role(Role.GPU):
        if nodes is None:
            yield not_assessed(host.name, why)
        else:
            yield _node(view.site, host, nodes.get(host.name))
            yield from _stuck(view, host.name)


def _stuck(view: View, name: str) -> Iterator[Judgement]:
    """A job whose end has not come to its end keeps its GPUs."""
    slurm, _ = slurm_of(view)
    for one in slurm.stuck if slurm else ():
        job = one.job.partition("_")[0]
        if one.nodes != name or one.seconds < SLOW_END_S or not job.isdigit():
            continue
        steps = f"'slurmstepd: \\[{job}[.]'"
        yield warned(
            place(name, f"job {job}"),
            f"job {job} ended {one.seconds / 60:.0f} min ago, but its processes did not: what it had stays reserved",
            f"on {name}: ps -eo pid,stat,etime,args | grep slurmstepd shows them; pkill -CONT -f {steps} continues a stopped one (T); "
            f"if that does not help: pkill -KILL -f {steps}; processes in state D wait for a disk or a file server",
            value=round(one.seconds),
            unit="s",
            limit=SLOW_END_S,
            limit_source="own choice, twice Slurm's UnkillableStepTimeout",
            evidence="squeue --states=CG",
        )


def _leaving(view: View) -> Iterator[Judgement]:
    nodes, why = listed_by(view)
    if nodes is None:
        yield not_assessed("cluster", why)
        return
    busy = leaving(view)
    for node in busy:
        yield failed(
            place("cluster", f"node {node.name}"),
            f"{node.name} runs jobs, but is no longer in the site: stage slurm would end them, so the next deployment refuses",
            LEAVE.format(node.name),
            value=node.state,
            limit=NO_JOBS,
            names=(node.name,),
        )
    full = leaving_partitions(view)
    for one in full:
        yield failed(
            place("cluster", f"partition {one.name}"),
            f"partition {one.name} has {jobs_in(one)}, but is no longer in the site: stage slurm would end them, so the next "
            "deployment refuses",
            STAY.format(one.name),
            value=one.jobs,
            limit=NO_JOBS,
        )
    if not busy and not full:
        yield passed("cluster", 0, unit="hosts", evidence="scontrol show nodes")


def leaving_partitions(view: View) -> list[SlurmPartition]:
    """Return partitions that are no longer in the site, and have jobs or an unknown number of them."""
    slurm, _ = slurm_of(view)
    known = {one.name for one in view.site.slurm_options.partitions}
    found = (slurm.partitions if slurm else None) or ()
    return [one for one in found if one.name not in known and one.jobs != 0]


def jobs_in(partition: SlurmPartition) -> str:
    """Return its number of jobs in words, also if it is unknown."""
    if partition.jobs is None:
        return "jobs that cannot be counted"
    return plural(partition.jobs, "job")


def leaving(view: View) -> list[SlurmNode]:
    """Return nodes that run jobs but are no longer in the site."""
    nodes, _ = listed_by(view)
    known = {host.name for host in view.site.hosts}
    return [
        node
        for name, node in (nodes or {}).items()
        if name not in known and not AT_WORK.isdisjoint(state_words(node.state))
    ]


def listed_by(view: View) -> tuple[Mapping[str, SlurmNode] | None, Gap]:
    """Return the nodes that the controller lists, or why there are none."""
    return view.once(_nodes_by_name)


def _nodes_by_name(view: View) -> tuple[Mapping[str, SlurmNode] | None, Gap]:
    slurm, why = slurm_of(view)
    if slurm is None:
        return None, why
    if slurm.controller.lower() != "up":
        return None, Gap("the controller is not up")
    if slurm.nodes is None:
        host = controller_of(view)
        none = "the controller's list of hosts was not read"
        return None, view.facts[host.name].gap("slurm", none) if host else Gap(none)
    return {node.name: node for node in slurm.nodes}, why


def _node(site: Site, host: Host, node: SlurmNode | None) -> Judgement:
    if node is None:
        return failed(
            host.name,
            f"Slurm does not know {host.name}",
            f"on {site.with_role(Role.CONTROL)[0].name}: systemctl restart slurmctld, which reads slurm.conf; if the host is missing there, too: {DEPLOY}",
            limit="idle, mixed or allocated",
        )
    words = state_words(node.state)
    owner = site.owner(host)
    if owner is not Owner.SLURM:
        return _given_away(host, node, words, owner)
    if words and words <= WORKING:
        return passed(host.name, node.state.lower(), limit="idle, mixed or allocated")
    if planned := Maintenance.read(node.reason):
        return in_maintenance(host.name, planned, "idle, mixed or allocated")
    return failed(
        host.name,
        _out_of_work(node, words),
        _back_to_work(site, host, node, words),
        value=node.state.lower(),
        limit="idle, mixed or allocated",
        evidence="scontrol show node",
        kind=Kind.TOO_FEW_GPUS if TOO_FEW in node.reason else Kind.OTHER,
        names=_taken_out_for(node),
    )


def _taken_out_for(node: SlurmNode) -> tuple[str, ...]:
    """Return the check that the host's own watch gave as the reason."""
    found = node.reason.removeprefix(HEALTH)
    return (found.partition(" ")[0],) if found != node.reason else ()


def _given_away(host: Host, node: SlurmNode, words: frozenset[str], owner: Owner) -> Judgement:
    """Judge a host of another owner, which must be drained; otherwise Slurm would give it jobs, too."""
    limit = f"drained for {owner.value}"
    if words & {"drain", "drained", "draining"}:
        return passed(host.name, node.state.lower(), limit=limit)
    takes = "takes jobs" if words <= WORKING else f"is {node.state.lower()}, but not drained"
    cause = f"{takes}; the site assigns {host.name} to {owner.value}"
    fix = f"{DEPLOY} --stage slurm"
    return failed(host.name, cause, fix, value=node.state.lower(), limit=limit)


def _out_of_work(node: SlurmNode, words: frozenset[str]) -> str:
    state = next((w for w in OUT if w in words), node.state.lower() or "without a state")
    silent = "not_responding" in words and not node.reason
    return f"{state}: {node.reason or ('slurmd does not answer' if silent else 'no reason given')}"


def _back_to_work(site: Site, host: Host, node: SlurmNode, words: frozenset[str]) -> str:
    if any(word.startswith("reboot") for word in words):
        return f"wait until it has rebooted; before the reboot starts, cancel it: scontrol cancel_reboot {host.name}"
    if words & MAINTENANCE and not words.intersection(OUT):
        return "scontrol show reservation shows its owner and its end; then the host accepts jobs again"
    if "not_responding" in words:
        return f"on {host.name}: systemctl restart slurmd; if it stays silent, journalctl -u slurmd shows why; otherwise check the network to the controller"
    if node.reason.startswith(tuple(HEALTH + check for check in BY_OPERATORS)):
        return f"fix the fault, which a reboot hides; then {DEPLOY} --stage slurm --full --hosts {host.name}"
    if node.reason.startswith(HEALTH):
        return f"fix that, then {DEPLOY}; or wait: a fit host resumes automatically (slurm.watch)"
    if node.reason.startswith(CONTRADICTS):
        return f"base.facts of {host.name} shows the difference; {DEPLOY} resumes the host when it is resolved"
    if node.reason.startswith((*Why, GIVEN_AWAY)):
        return f"fix that, then {DEPLOY} (it resumes the host)"
    head = site.with_role(Role.CONTROL)[0].name
    return f"when its reason no longer applies, on {head}: scontrol update nodename={host.name} state=resume"


def _gres(view: View) -> Iterator[Judgement]:
    nodes, why = listed_by(view)
    for host in view.site.with_role(Role.GPU):
        count = gpu_count(view.profile_of(host.name), host)
        node = nodes.get(host.name) if nodes else None
        if node is None:
            unknown = Gap(f"Slurm does not know {host.name}")
            yield not_assessed(host.name, why if nodes is None else unknown)
            continue
        offered = gpus_offered(count, view.facts.get(host.name))
        if _unread_parts(view.facts.get(host.name)):
            cause = f"the MIG devices of {host.name} were not read"
            yield not_assessed(host.name, cause)
        elif short := _registered_short(view, host, node):
            yield short
        elif any(offered):
            yield _judge_parts(view, host, offered, node.gres)
        else:
            yield _judge_gres(view, host, gpus_in(node.gres), count, node.gres)


def _unread_parts(facts: HostFacts | None) -> bool:
    devices = facts.gpus.devices if facts and facts.gpus else ()
    return any(gpu.mig_enabled and gpu.mig is None for gpu in devices)


def _registered_short(view: View, host: Host, node: SlurmNode) -> Judgement | None:
    """Report a host whose slurmd found fewer GPUs than in slurm.conf, which Gres still shows."""
    short = SHORT.search(node.reason)
    if short is None or state_words(node.state) <= WORKING:
        return None
    return failed(
        host.name,
        f"slurmd has found {short[1]} of the {short[2]} GPUs of slurm.conf",
        f"ls /dev/nvidia* on {host.name}, then {DEPLOY} --stage slurm --hosts {host.name}; if it stays drained when all have returned, on {view.site.with_role(Role.CONTROL)[0].name}: "
        f"scontrol update nodename={host.name} state=resume",
        value=int(short[1]),
        unit="GPUs",
        limit=int(short[2]),
        limit_source="slurm.conf",
        evidence=f"Reason={node.reason}",
        simulated=_simulated(view, view.facts.get(host.name)),
    )


def _judge_gres(view: View, host: Host, found: int, count: int, gres: str) -> Judgement:
    facts = view.facts.get(host.name)
    told: dict[str, Any] = {
        "value": found,
        "unit": "GPUs",
        "limit": count,
        "limit_source": f"profile {view.profile_of(host.name).name}",
        "evidence": f"Gres={gres or '(null)'}",
        "simulated": _simulated(view, facts),
    }
    if found == count:
        return passed(host.name, **told)
    cause = f"Slurm offers {found} of {count} GPUs"
    fix = f"ls /dev/nvidia* on {host.name}, then {DEPLOY} --stage slurm"
    return failed(host.name, cause, fix, **told)


def _judge_parts(view: View, host: Host, there: dict[str, int], gres: str) -> Judgement:
    """Judge a host with divided GPUs: whole ones together, instances by type."""
    found = dict.fromkeys(there, 0)
    for name, count in re.findall(r"(?:^|,)gpu:([^:,(]+):([0-9]{1,9})(?=[,(]|$)", gres):
        kind = name if name in there else ""
        found[kind] = found.get(kind, 0) + int(count)
    told: dict[str, Any] = {
        "value": _listed(found),
        "limit": _listed(there),
        "limit_source": "the MIG devices of the host",
        "evidence": f"Gres={gres or '(null)'}",
        "simulated": _simulated(view, view.facts.get(host.name)),
    }
    if found == there:
        return passed(host.name, **told)
    cause = f"Slurm offers {_listed(found)}, the host has {_listed(there)}"
    return failed(host.name, cause, DEPLOY, **told)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(
        f"{count} x {name}" if name else f"{count} whole" for name, count in sorted(counts.items())
    )


def _simulated(view: View, facts: HostFacts | None) -> bool:
    return any(
        a.startswith("gpu") for a in (*view.site.simulated, *(facts.simulated if facts else ()))
    )


def _accounting(view: View) -> Iterator[Judgement]:
    slurm, why = slurm_of(view)
    cluster = view.site.slurm_options.cluster
    if slurm is None or slurm.accounting is None:
        none = "slurm.conf of the controller has no slurmdbd"
        yield not_assessed("cluster", why if slurm is None else none)
    elif slurm.accounting and slurm.read_only:
        head = getattr(controller_of(view), "name", "")
        yield failed(
            place("cluster", "database"),
            "slurmdbd's database is read-only: no job, user or limit is recorded",
            f"on {head}: mysql -e 'set global read_only=0'; grep -rs read_only /etc/mysql shows a file that sets it at the next start",
            value="read-only",
            limit="writable",
            evidence="select @@global.read_only",
        )
    elif slurm.accounting:
        yield passed("cluster", cluster, evidence="sacctmgr show cluster")
    else:
        head = getattr(controller_of(view), "name", "")
        yield failed(
            "cluster",
            f'slurmdbd does not answer, or does not know cluster "{cluster}"',
            _opened(view, head, SLURMDBD)
            or f"on {head}: systemctl restart slurmdbd; if that does not help, journalctl -u slurmdbd -u mariadb shows why; then {DEPLOY}",
            names=tuple(filter(None, [head])),
        )


def _opened(view: View, head: str, port: int) -> str:
    """Return the remedy if the host's own firewall blocks a port; empty if none is known."""
    fix = removal(head, view.facts.get(head), port)
    return f"{fix}, which drops port {port}" if fix else ""


def _munge(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    changed = [d for receipt in facts.receipts.values() for d in receipt.drift]
    if any((d.kind, d.name) == MUNGE_KEY for d in changed):
        cause = "its munge key is not the site's: no other host accepts what it signs"
        fix = f"{DEPLOY} --stage slurm --hosts {host.name}, which restores the site's key"
        yield failed(host.name, cause, fix)
        return
    of_unit = _unit(host.name, host, facts, "munge")
    refused = facts.access.munge if facts.access else None
    if of_unit.status is Status.PASS and (which := _other_key(view, facts)):
        cause = (
            f"munged uses {which} key than its file holds: no other host may accept what it signs"
        )
        yield failed(host.name, cause, f"on {host.name}: systemctl restart munge")
        return
    if of_unit.status is not Status.PASS or not refused:
        yield of_unit
        return
    yield failed(
        host.name,
        f"munged runs, but does not sign for users: {refused}",
        f"on {host.name}: chmod 0755 /run/munge; systemctl restart munge",
        evidence="munge --no-input as an unprivileged user",
    )


def _daemons(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    first = controller_of(view)
    units = ["slurmctld", "slurmdbd", "mariadb"] if first and host.name == first.name else []
    for unit in units + (["slurmd"] if Role.GPU in host.roles else []):
        yield _unit(place(host.name, unit), host, facts, unit)


def _other_key(view: View, facts: HostFacts) -> str:
    """Return which key munged uses, if it differs from its file; "" if it does not.

    How munge derives its keys is not documented. So a signature that differs counts only where another host's agrees.
    """
    if facts.access is None:
        return ""
    if facts.access.munge_key_is_newer:
        return "an older"
    is_known = any(one.access and one.access.munge_uses_key for one in view.facts.values())
    return "another" if is_known and facts.access.munge_uses_key is False else ""


def _unit(target: Place | str, host: Host, facts: HostFacts, name: str) -> Judgement:
    unit = facts.units.get(f"{name}.service") or facts.units.get(name)
    if unit is None or unit.active == "unknown":
        why = facts.gap("units", f"the state of {name}.service was not read")
        return not_assessed(target, why)
    if unit.active == "active" and unit.enabled in {"disabled", "masked"}:
        cause = f"{name} runs, but is {unit.enabled}: it will not start at the next boot"
        fix = f"on {host.name}: systemctl unmask {name}; systemctl enable {name}"
        return failed(target, cause, fix, value=unit.enabled, limit="enabled")
    if unit.active == "active":
        return passed(target, "active", limit="active")
    state = "is not installed" if unit.load == "not-found" else f"is {unit.active} ({unit.sub})"
    fix = f"journalctl -u {name} on {host.name}, then {DEPLOY}"
    fix = revived(unit, f"{name}.service", host.name, fix)
    return failed(target, f"{name} {state}", fix, value=unit.active, limit="active")


CHECKS: tuple[Check, ...] = (
    HostCheck(
        ids.MUNGE,
        "munge runs, with the site's key",
        frozenset({Role.CONTROL, Role.GPU, Role.LOGIN}),
        _munge,
        "munge signs every message between Slurm's daemons and commands. It does not start if its key is missing or readable by others. A "
        "host with another key is rejected, and Slurm reports it as not responding. Munge rejects messages if the clocks of two hosts are "
        "more than five minutes apart.",
        limit="active",
        causes=(FULL_DISK,),
        explains=(
            Effect(
                base_ids.DRIFT,
                "the key is the file that changed",
                when=names_only("file /etc/munge/munge.key"),
            ),
            unit_failed("munge", "slurmd", "slurmctld", "slurmdbd"),
        ),
    ),
    HostCheck(
        ids.DAEMONS,
        "Slurm's daemons run",
        frozenset({Role.CONTROL, Role.GPU}),
        _daemons,
        "slurmctld, slurmdbd and their database on the first control host, slurmd on GPU hosts. The journal and /var/log/slurm show why a "
        "daemon stopped.",
        limit="active",
        causes=(
            FULL_DISK,
            NO_MUNGE,
            OWN_FOLDER,
            Cause(
                base_ids.ACCESS,
                "slurmd does not start without the device files of its GPUs",
                when=lambda cause, effect: (
                    any(name.startswith("/dev/nvidia") for name in cause.names)
                    and effect.parts == ("slurmd",)
                ),
            ),
            Cause(
                ids.DAEMONS,
                "slurmdbd keeps its records in the database",
                when=both(is_of("mariadb"), on("slurmdbd")),
            ),
        ),
        explains=(unit_failed("slurmd", "slurmctld", "slurmdbd", "mariadb"),),
    ),
    ClusterCheck(
        ids.CONTROLLER,
        "The controller answers",
        _controller,
        "Without slurmctld no job starts; running jobs continue. It fails, too, if slurmctld runs with other settings than its slurm.conf. Usual causes: the daemon was stopped, slurm.conf is invalid, or accounting "
        "was not available when it started.",
        limit="up",
        causes=(
            UNASKED,
            Cause(ids.DAEMONS, "slurmctld is the controller", Reach.SITE, is_of("slurmctld")),
            Cause(ids.MUNGE, "slurmctld answers through munge", Reach.NAMED),
            Cause(
                base_ids.NEIGHBOURS,
                "its port is closed",
                Reach.NAMED,
                lambda cause, effect: cause.parts == (f"port {SLURMCTLD}",),
            ),
        ),
    ),
    ClusterCheck(
        ids.NODES,
        "Every GPU host accepts jobs",
        _nodes,
        "Each GPU host must be known to the controller and idle, mixed or allocated. Drained means that an operator or a health check "
        "drained it, with a reason. A job whose processes still run two minutes after its end is a warning. Down means that slurmd stopped answering, or that the host came back with less hardware.",
        limit="idle, mixed or allocated",
        causes=(
            SILENT,
            UNASKED,
            Cause(
                gpu_ids.COUNT,
                "Slurm drains a node that registers with too few GPUs",
                when=short_of_gpus,
            ),
            Cause(
                ids.GRES,
                "Slurm drains a node that registers with too few GPUs",
                when=short_of_gpus,
            ),
            UNFIT,
            Cause(
                ids.SUBMIT,
                "a reservation keeps the host for root",
                Reach.SITE,
                lambda cause, effect: (
                    "".join(cause.parts[:1]).startswith("reservation ")
                    and not MAINTENANCE.isdisjoint(state_words(str(effect.value)))
                ),
            ),
            Cause(
                base_ids.NEIGHBOURS,
                "slurmctld does not reach slurmd",
                when=lambda cause, effect: (
                    cause.parts == ("port 6818",) and "not_responding" in str(effect.value)
                ),
            ),
            Cause(
                ids.RETURN,
                "the fault that caused the drain has ended, but the drain remains",
                when=lambda cause, effect: bool(effect.names),
            ),
            NO_MUNGE,
            Cause(ids.DAEMONS, "without slurmd the host accepts no jobs", when=is_of("slurmd")),
            NO_CONTROLLER,
        ),
    ),
    ClusterCheck(
        ids.LEAVING,
        "No job runs on a host, or is in a partition, that was removed from the site",
        _leaving,
        "Nodes and partitions that slurmctld lists, that the site no longer names and that still have jobs. A deployment of stage slurm "
        "would remove them from slurm.conf and end these jobs, so it is refused.",
        limit=NO_JOBS,
        nature=Nature.SYMPTOM,
        causes=(UNASKED, NO_CONTROLLER),
    ),
    ClusterCheck(
        ids.GRES,
        "Slurm offers every GPU",
        _gres,
        "The number of GPUs that jobs can request on a host, compared with the profile. It is too low if gres.conf and the device nodes "
        "under /dev differ, usually after a GPU was lost or the driver did not load.",
        limit="hosts[].gpus of the site, else hardware.gpu.count of the profile",
        causes=(
            SILENT,
            UNASKED,
            Cause(
                gpu_ids.DRIVER, "without a driver there are no device nodes to offer", when=no_value
            ),
            Cause(gpu_ids.COUNT, "Slurm offers only existing device nodes"),
            NO_CONTROLLER,
        ),
    ),
    ClusterCheck(
        ids.ACCOUNTING,
        "Accounting knows the cluster",
        _accounting,
        "slurmdbd records usage, unless its database is read-only. Jobs continue without it for a while, but limits and shares are not updated. Usual causes: the database is "
        "down or its disk is full.",
        limit="slurmdbd answers and knows the cluster",
        causes=(
            UNASKED,
            Cause(ids.MUNGE, "slurmdbd answers through munge", Reach.NAMED),
            Cause(
                ids.DAEMONS,
                "accounting is slurmdbd and its database",
                Reach.SITE,
                is_of("slurmdbd", "mariadb"),
            ),
            NO_CONTROLLER,
        ),
    ),
)
