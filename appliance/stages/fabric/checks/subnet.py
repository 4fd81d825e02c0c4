"""Checks the subnet as a whole: one master subnet manager, and every port found by discovery."""

from collections.abc import Iterable, Mapping
from functools import cached_property

from appliance.checks.check import View, failed, judged, not_assessed, passed
from appliance.models.facts import HostFacts, ProblemKind
from appliance.models.gap import Gap
from appliance.models.profile import Profile
from appliance.models.result import Judgement, Status, place
from appliance.models.site import Host, Role
from appliance.stages.fabric.cabling import INFINIBAND, Cables, Known, found_cables, number
from appliance.stages.fabric.facts import Port, SubnetManager, Topology
from appliance.text import plural


def judge_subnet_manager(view: View) -> Iterable[Judgement]:
    """Pass if one master answers, and all hosts of the fabric see the same one."""
    if not infiniband(view):
        return []
    simulated = is_simulated(view)
    beside = outside(view)
    asked = {name: f for name, f in view.facts.items() if name not in beside}
    answers = {name: f.subnet_manager for name, f in asked.items() if f.subnet_manager}
    unanswered = {name: f for name, f in asked.items() if f.has("fabric", ProblemKind.UNANSWERED)}
    if not answers and unanswered:
        return [_no_master(view, next(iter(unanswered)), "silence", simulated)]
    if not answers:
        gap = why(view, ("fabric",), "no host could query the subnet manager")
        return [not_assessed("cluster", gap, simulated=simulated)]
    masters = {name: sm for name, sm in answers.items() if "MASTER" in sm.state.upper()}
    if not masters:
        name, manager = next(iter(answers.items()))
        return [_no_master(view, name, manager.state, simulated)]
    if len({sm.guid for sm in masters.values() if sm.guid}) > 1:
        return [_two_masters(masters, simulated)]
    asked_from, master = next(iter(masters.items()))
    slaves = answers.keys() - masters
    deaf = [name for name in asked if name in unanswered or name in slaves]
    if deaf and _is_doubted(view, masters, deaf):
        return [_no_master(view, deaf[0], "silence", simulated, only=tuple(masters))]
    if deaf:
        return [_lost_query(view.facts[name], asked_from, master, simulated) for name in deaf]
    if stranger := _foreign_master(view, master, simulated):
        return [stranger]
    others = f" and {len(masters) - 1} more" if len(masters) > 1 else ""
    evidence = f"asked from {asked_from}{others}, priority {master.priority}"
    value = master.guid or "master"
    return [passed("cluster", value, evidence=evidence, simulated=simulated)]


def judge_topology(view: View) -> Iterable[Judgement]:
    """Pass if discovery from a control host finds every linked InfiniBand port of every GPU host."""
    if not infiniband(view):
        return []
    simulated = is_simulated(view)
    seen = discovered(view)
    if seen is None:
        gap = why(view, ("topology", "fabric"), "no control host could discover the fabric")
        return [not_assessed("cluster", gap, simulated=simulated)]
    origin, topology = seen
    known = gpu_hosts(view)
    hosts = [host for host in view.site.with_role(Role.GPU) if host.name in known]
    adapters = Adapters(topology)
    if not any(_is_linked(port) for f in known.values() if f for port in f.ports):
        cause = "no port of a GPU host has a known link, so discovery cannot be compared"
        return [not_assessed("cluster", cause, simulated=simulated)]
    results = [r for host in hosts for r in _host_results(view, host, adapters, simulated)]
    if results:
        return results
    seen_from = f"{plural(len(topology.switches), 'switch', 'switches')}, {plural(len(topology.links), 'link')}, from {origin}"
    common = {"unit": "adapters", "evidence": seen_from, "simulated": simulated}
    return [passed("cluster", len(topology.hcas), **common)]


def infiniband(view: View) -> bool:
    """Return whether any GPU host's class has InfiniBand."""
    return any(has_infiniband(profile) for profile in view.profiles)


def has_infiniband(profile: Profile) -> bool:
    """Return whether hosts of this class have InfiniBand."""
    return profile.hardware.fabric.link_layer == INFINIBAND


def is_simulated(view: View) -> bool:
    """Return whether any host's fabric is simulated."""
    return any("fabric" in facts.simulated for facts in view.facts.values())


def gpu_hosts(view: View) -> Known:
    """Return the GPU hosts of the fabric, each with its facts if it answered; without those whose class has another fabric."""
    names = [host.name for host in view.site.with_role(Role.GPU)]
    beside = outside(view)
    return {name: view.facts.get(name) for name in names if name not in beside}


def outside(view: View) -> frozenset[str]:
    """Return GPU hosts whose class has no InfiniBand, on a site where another class has it."""
    if not view.site.has_classes or not infiniband(view):
        return frozenset()
    names = (host.name for host in view.site.with_role(Role.GPU))
    return frozenset(name for name in names if not has_infiniband(view.profile_of(name)))


def discovered(view: View) -> tuple[str, Topology] | None:
    """Return the first control host that could discover the fabric, and its result."""
    for host in view.site.with_role(Role.CONTROL):
        facts = view.facts.get(host.name)
        if facts and facts.topology:
            return host.name, facts.topology
    return None


def cables_of(view: View, topology: Topology) -> Cables:
    """Return the cables of the GPU hosts by adapter, cached for all checks."""
    seen = discovered(view)
    if seen is None or seen[1] is not topology:
        return found_cables(_bounded(view, gpu_hosts(view)), topology, view.standing.facts)
    return view.once(_cables)


def _cables(view: View) -> Cables:
    seen = discovered(view)
    return (
        found_cables(_bounded(view, gpu_hosts(view)), seen[1], view.standing.facts) if seen else {}
    )


def _bounded(view: View, said: Known) -> Known:
    """Return the same without ports whose GUIDs were accepted from another host; otherwise one host could move another's cables."""
    standing = view.standing.facts
    owners = {number(p.guid): name for name, facts in standing.items() for p in facts.ports}
    return {name: _without_others(name, facts, owners) for name, facts in said.items()}


def _without_others(
    name: str, facts: HostFacts | None, owners: Mapping[int, str]
) -> HostFacts | None:
    if facts is None or not owners:
        return facts
    own = tuple(p for p in facts.ports if owners.get(number(p.guid), name) == name)
    return facts if len(own) == len(facts.ports) else facts.model_copy(update={"ports": own})


def why(view: View, areas: tuple[str, ...], otherwise: str) -> Gap:
    """Return the control hosts' reasons for a failed query."""
    for host in view.site.with_role(Role.CONTROL):
        facts = view.facts.get(host.name)
        if facts is None:
            text = f"{host.name} did not answer, and discovery runs from there"
            return Gap(text, (host.name,))
        for area in areas:
            if area in facts.errors:
                return facts.gap(area).after(f"{host.name}: ")
    return Gap(otherwise)


def _is_doubted(view: View, heard: Iterable[str], deaf: Iterable[str]) -> bool:
    """Return whether most hosts reach no master, or half of them and all control hosts: a single host does not decide."""
    hear, miss = set(heard), set(deaf)
    if len(hear) != len(miss):
        return len(hear) < len(miss)
    control = {host.name for host in view.site.with_role(Role.CONTROL)}
    return bool(control & miss) and not control & hear


def _no_master(
    view: View, asked_from: str, said: str, simulated: bool, only: tuple[str, ...] = ()
) -> Judgement:
    """``only``: the few hosts that report a master."""
    heads = [host.name for host in view.site.with_role(Role.CONTROL)]
    control = ", ".join([name for name in heads if name in view.facts] or heads)
    ours = view.site.fabric.subnet_manager == "opensm"
    if ours and "STANDBY" in said.upper():
        return failed(
            "cluster",
            f"opensm of {control} is on standby and no master answers (asked from {asked_from}): another subnet manager replaced it or stopped recently, or one hangs in its discovery",
            f"on each host: pgrep -a opensm; stop each except on {control}; if no other runs, on {control}: systemctl restart opensm",
            value=said,
            simulated=simulated,
        )
    few = (
        f"; only {', '.join(only)} {'reports' if len(only) == 1 else 'report'} one" if only else ""
    )
    return failed(
        "cluster",
        f"no master subnet manager answers (asked from {asked_from}: {said}){few}",
        f"on {control}: systemctl restart opensm, then read /var/log/opensm.*log"
        if ours
        else "start the subnet manager of the switch or of UFM (site.fabric.subnet_manager is "
        f"{view.site.fabric.subnet_manager})",
        value=said,
        names=only,
        simulated=simulated,
    )


def _foreign_master(view: View, master: SubnetManager, simulated: bool) -> Judgement | None:
    """Report a master other than opensm of a control host, if the site requires that."""
    if view.site.fabric.subnet_manager != "opensm" or not number(master.guid):
        return None
    control = [host.name for host in view.site.with_role(Role.CONTROL)]
    bounded = _bounded(view, view.facts)
    known: dict[int, tuple[str, str]] = {}
    # A GUID that several hosts report is the control host's: no other host may run opensm.
    for name in (*control, *bounded):
        facts = bounded.get(name)
        for port in facts.ports if facts else ():
            known.setdefault(number(port.guid), (name, port.device))
    name, device = known.get(number(master.guid), ("", ""))
    if name in control:
        return None
    named = ", ".join(control)
    if any(host not in view.facts or not view.facts[host].ports for host in control):
        cause = f"the ports of {named} are not all known, so the owner of {master.guid} is unknown"
        return not_assessed("cluster", cause, simulated=simulated)
    whose = f"of {name} ({device})" if name else "of a switch, or of a machine outside the site"
    there = f"on {name}: pgrep -a opensm; systemctl disable --now opensm, or kill the process"
    nobody = "ibnetdiscover shows the node with that GUID: stop its subnet manager, or set fabric.subnet_manager: external"
    return failed(
        "cluster",
        f"the master subnet manager is {master.guid} {whose}, not opensm of {named}: it sets its own routes and partitions",
        f"{there if name else nobody}; opensm of {control[0]} then becomes master within a minute",
        value=master.guid,
        limit="opensm of the control hosts",
        limit_source="fabric.subnet_manager of the site",
        names=(name,) if name else (),
        evidence=f"sminfo: priority {master.priority}",
        simulated=simulated,
    )


def _two_masters(masters: Mapping[str, SubnetManager], simulated: bool) -> Judgement:
    said = ", ".join(f"{name} is served by {sm.guid}" for name, sm in masters.items())
    return failed(
        "cluster",
        f"the hosts are in different subnets: {said}",
        "connect the switches with each other (iblinkinfo on both sides), or stop the second manager",
        value=len({sm.guid for sm in masters.values()}),
        limit=1,
        simulated=simulated,
    )


def _lost_query(facts: HostFacts, other: str, master: SubnetManager, simulated: bool) -> Judgement:
    """Return whether the query failed by chance: if all ports are active, a subnet manager has configured them."""
    name = facts.host
    was_served = all("ACTIVE" in port.state.upper() for port in facts.ports if _is_linked(port))
    served = f"{name} does not reach a master subnet manager, but {other} is served by {master.guid or 'one'}"
    return judged(
        name,
        Status.WARN if was_served else Status.FAIL,
        value="silence",
        cause=served
        + (
            ", though its ports are active" if was_served else ": it is connected to another fabric"
        ),
        fix=("run appliance health again; if it stays,  " if was_served else "")
        + f"iblinkinfo on {name} shows where its cables end: connect that switch with the others",
        simulated=simulated,
    )


class Adapters:
    """Discovered adapters, by host."""

    def __init__(self, topology: Topology) -> None:
        self._hcas = topology.hcas
        self._described = {node.description for node in topology.hcas}

    @cached_property
    def _guids(self) -> set[int]:
        return {number(node.guid) for node in self._hcas}

    def unmet(self, host: Host, facts: HostFacts) -> list[Port]:
        """Return ports with a link that discovery did not find.

        By "host device", as rdma-ndd describes adapters; where it does not run, by GUID: an adapter's is its
        port's, or with several ports (and in ibsim) less by the port's number.
        """
        names = {host.name, facts.os.hostname}
        met = {
            port.device
            for port in facts.ports
            for name in names
            if f"{name} {port.device}" in self._described
        }
        linked = [port for port in facts.ports if _is_linked(port)]
        if met:
            return [port for port in linked if port.device not in met]
        return [port for port in linked if not self._has_guid(port)]

    def _has_guid(self, port: Port) -> bool:
        guid = number(port.guid)
        return bool(guid) and bool({guid, guid - port.port} & self._guids)


def _is_linked(port: Port) -> bool:
    return port.link_layer == "InfiniBand" and "LINKUP" in port.physical.upper()


def _host_results(view: View, host: Host, seen: Adapters, simulated: bool) -> Iterable[Judgement]:
    facts = view.facts.get(host.name)
    if facts is None:
        cause = f"{host.name} did not answer: its adapters are unknown"
        yield not_assessed(host.name, cause, simulated=simulated)
        return
    if not facts.ports and "fabric" in facts.errors:
        unread = facts.gap("fabric").after(f"the adapters of {host.name} were not read:  ")
        yield not_assessed(host.name, unread, simulated=simulated)
    for port in seen.unmet(host, facts):
        yield failed(
            place(host.name, port.device),
            f"discovery does not find {port.device} of {host.name}, though its link is up: it is connected to another fabric",
            f"follow the cable of {port.device}; ibnetdiscover on the control host lists what is connected",
            simulated=simulated,
        )
