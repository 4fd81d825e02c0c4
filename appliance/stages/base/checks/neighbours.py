"""Checks whether hosts reach each other, with packets up to the MTU, and by the right names and addresses."""

import re
from collections.abc import Iterable, Iterator, Mapping

from appliance.checks.check import View, failed, not_assessed, passed, warned
from appliance.checks.votes import usual
from appliance.models.facts import HostFacts
from appliance.models.facts_host import Interface, Peer
from appliance.models.gap import Gap
from appliance.models.result import Judgement, Place, place
from appliance.models.site import Host
from appliance.text import plural, quoted

SERVICES = {2049: "NFS", 6817: "slurmctld", 6818: "slurmd", 50001: "srun, MPI and NCCL"}
IPV4 = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
NO_PORT = 0
"""Only a rule without ports answers so."""
SILENT = frozenset({"silent", "unreachable"})
BARRIER = re.compile(
    r"(route del (blackhole|unreachable|prohibit) |neigh del )[0-9a-z./]+(( dev| table| metric) [\w.@-]+)*"
)
INTERFACE = re.compile(r"[A-Za-z0-9][\w.-]{0,14}", re.ASCII)
BLOCK = re.compile(r"(rule|chain) (ip|ip6|inet|arp|bridge|netdev) [\w.-]+ [\w.-]+( handle \d+)?")
"""Obstacles that a host may report, restricted to text that is safe in a command."""
PARENT = re.compile(r"ffff:(fff[23])?")
FILTERS = {
    "police": "drops packets above a rate",
    "drop": "drops packets",
    "redirect": "sends packets to another interface",
}
RANDOM = re.compile(r"\bnumgen random\b")
OF_OWNER = re.compile(r"\bmeta (skuid|skgid) ([1-9]\d{3,9})(?:\s|$)")
"""Accounts of users (login.defs(5)); rules of daemons may be right."""
Seen = dict[str, dict[str, Peer]]
"""By the tested host and by the testing host."""


def judge_neighbours(view: View) -> Iterable[Judgement]:
    """Judge reports of hosts about each other: of several about one host, it is the finding's host; of one, the reporter is."""
    asked = {name: facts.neighbours for name, facts in view.facts.items() if facts.neighbours}
    unasked = sorted(name for name in view.facts if not _is_whole(view.facts[name]))
    if not asked:
        gap = view.facts[unasked[0]].gap("neighbours") if unasked else Gap("no host answered")
        return [not_assessed("cluster", gap)]
    seen: Seen = {}
    hosts = {host.name for host in view.site.hosts}
    for name, said in asked.items():
        for peer in said.peers:
            if not peer.own and peer.name in hosts and not _is_answered_by(view, peer.name, name):
                seen.setdefault(peer.name, {})[name] = peer
    sizes = list(_sizes(view))
    found = [
        *sizes,
        *_slowed(view),
        *_filtered(view),
        *_partial(view),
        *_fixed(view),
        *_reach(view, seen, has_sizes=bool(sizes)),
        *_ports(view, seen),
    ]
    found += [*_names(view, asked), *_addresses(view, seen)]
    if found:
        return found
    if unasked:
        why = view.facts[unasked[0]].gap("neighbours").after(f"{unasked[0]}: ")
        return [not_assessed("cluster", why)]
    pairs = sum(len(by) for by in seen.values())
    return [passed("cluster", pairs, unit="pairs", evidence="packets of both sizes, ports, names")]


def _at(name: str, witnesses: list[str], part: str) -> Place:
    """Return a host's results from at least two other hosts; a single report is a result of the reporter."""
    if len(witnesses) > 1:
        return place(name, part)
    return place(witnesses[0], f"{name} {part}")


def _is_answered_by(view: View, name: str, asker: str) -> bool:
    """Return whether a host has the querying host's own address, which is the finding then."""
    address = next((str(one.address) for one in view.site.hosts if one.name == asker), "")
    facts = view.facts.get(name)
    return facts is not None and any(
        given.partition("/")[0] == address
        for interface in facts.interfaces
        for given in interface.addresses
    )


def _is_whole(facts: HostFacts) -> bool:
    """Return whether packets were sent, too."""
    said = facts.neighbours
    return said is not None and all(peer.own or peer.small is not None for peer in said.peers)


def _interface(host: Host, facts: HostFacts) -> Interface | None:
    at = f"{host.address}/"
    return next((i for i in facts.interfaces if any(a.startswith(at) for a in i.addresses)), None)


def _sizes(view: View) -> Iterator[Judgement]:
    """Judge the MTU, which must be equal on all hosts of a network; otherwise larger packets are lost."""
    found: dict[str, Interface] = {}
    for host in view.site.hosts:
        facts = view.facts.get(host.name)
        if facts and (interface := _interface(host, facts)):
            found[host.name] = interface
    counts: dict[int, int] = {}
    for interface in found.values():
        counts[interface.mtu] = counts.get(interface.mtu, 0) + 1
    if len(counts) < 2:
        return
    most = max(counts, key=lambda mtu: (counts[mtu], mtu))
    if 2 * counts[most] <= len(found):
        said = ", ".join(f"{name} {interface.mtu}" for name, interface in found.items())
        yield failed(
            place("cluster", "MTU"),
            f"hosts of one network have different MTUs: {said}",
            "ip link set DEVICE mtu SIZE on hosts that differ from the switches; then change the file that sets it at boot",
            value=len(counts),
            limit=1,
            unit="sizes",
        )
        return
    for name, interface in found.items():
        if interface.mtu != most:
            yield failed(
                place(name, interface.name),
                f"{interface.name} of {name} has an MTU of {interface.mtu}, {counts[most]} of {len(found)} hosts have {most}: larger packets between them are lost",
                f"on {name}: ip link set {interface.name} mtu {most}; then change the file that sets it at boot",
                value=interface.mtu,
                limit=most,
                limit_source="most hosts of the network",
            )


def _slowed(view: View) -> Iterator[Judgement]:
    """Report queueing disciplines set by hand, for example for a test."""
    for who, facts in view.facts.items():
        for one in facts.interfaces:
            if not one.slowed_by or not INTERFACE.fullmatch(one.name):
                continue
            kind = one.slowed_by
            what = "delays or loses packets" if kind == "netem" else "limits its rate"
            if one.slowed_to is not None:
                what = f"limits it to {one.slowed_to / 1e6:g} Mb/s"
            yield (failed if kind in {"tbf", "netem"} else warned)(
                place(who, one.name),
                f"{one.name} of {who} has the queueing discipline {kind}, which {what}",
                f"on {who}: tc qdisc del dev {one.name} root, which restores the kernel's own; tc -s qdisc show dev {one.name} shows it",
                value=kind,
                limit="none that limits, delays or loses packets",
                evidence="tc qdisc show",
            )


def _filtered(view: View) -> Iterator[Judgement]:
    """Report filters of tc set by hand, for example to limit or mirror a link."""
    for who, facts in view.facts.items():
        for one in facts.interfaces:
            for found in one.filters:
                if not INTERFACE.fullmatch(one.name) or not PARENT.fullmatch(found.parent):
                    continue
                yield failed(
                    place(who, one.name),
                    f"{one.name} of {who} has a traffic filter that {FILTERS.get(found.does, 'loses packets')}",
                    f"on {who}: tc filter del dev {one.name} parent {found.parent} prio {found.priority}; tc filter show dev {one.name} parent {found.parent} shows it",
                    value=found.does,
                    limit="none that drops, limits or diverts packets",
                    evidence="tc filter show",
                )


def _partial(view: View) -> Iterator[Judgement]:
    """Report rules that drop some packets, or those of some users, while root's tests pass."""
    for who, facts in view.facts.items():
        for block in facts.neighbours.blocks if facts.neighbours else ():
            owner = OF_OWNER.search(block.says)
            if not BLOCK.fullmatch(block.by) or "daddr" in block.says:
                continue
            what = "a part of all packets" if RANDOM.search(block.says) else ""
            if owner:
                what = f"packets of {'group' if owner[1] == 'skgid' else 'uid'} {owner[2]}"
            if what:
                yield failed(
                    place(who, "nft"),
                    f"a firewall rule that no stage has set drops {what} on {who}: {quoted(block.says)}",
                    f"on {who}: nft delete {block.by}",
                    value="dropped",
                    limit="none dropped",
                    evidence="nft list ruleset",
                )


def _reach(view: View, seen: Seen, *, has_sizes: bool) -> Iterator[Judgement]:
    for name, by in seen.items():
        if name not in view.facts:
            continue  # host.reachable tells of it
        asked = {who: peer for who, peer in by.items() if peer.small is not None}
        deaf = [
            who
            for who, peer in asked.items()
            if not peer.small and not _barred(view, seen, name, who)
        ]
        if deaf:
            yield _unreached(view, name, deaf, len(asked), asked)
        cut = [who for who, peer in asked.items() if peer.small and not peer.large]
        if cut and not has_sizes:
            size = asked[cut[0]].size
            yield failed(
                _at(name, cut, "large packets"),
                f"packets of {size} bytes from {_listed(cut)} to {name} are lost, small ones arrive: the MTU between them is smaller",
                f"set one MTU on both hosts and the switch ports between them: ip link show (ping -M do -s {size - 28} {name} shows it)",
                value="lost",
                limit=f"{size} bytes",
                names=(name, *cut),
            )


def _fixed(view: View) -> Iterator[Judgement]:
    """Entries of the ARP table for a host that name another machine: of a test, or of an adapter that was replaced."""
    hosts = {str(host.address): host for host in view.site.hosts}
    for who, facts in view.facts.items():
        for one in facts.neighbours.fixed if facts.neighbours else ():
            host = hosts.get(one.address)
            there = view.facts.get(host.name) if host else None
            interface = _interface(host, there) if host and there else None
            if (
                not host
                or not interface
                or not interface.mac
                or not INTERFACE.fullmatch(one.device)
            ):
                continue
            if interface.mac.lower() != one.mac.lower():
                yield failed(
                    place(who, host.name),
                    f"{who} has a fixed entry for {host.name} ({one.address}): {one.mac}, but {host.name} has {interface.mac}: its packets get lost",
                    f"on {who}: ip neigh del {one.address} dev {one.device}",
                    value=one.mac,
                    limit=interface.mac,
                    names=(host.name, who),
                    evidence="/proc/net/arp",
                )


def _barred(view: View, seen: Seen, name: str, who: str) -> bool:
    """Whether ``name`` itself keeps its packets from ``who``, which is told of ``name``."""
    if any(place(name, who) == one.at for one in _fixed(view)):
        return True
    back = seen.get(who, {}).get(name)
    return back is not None and back.small is False and bool(BARRIER.fullmatch(back.barrier))


def removal(name: str, facts: HostFacts | None, port: int) -> str:
    """The command that removes an unmanaged firewall rule that blocks a port; empty if none is known."""
    for block in facts.neighbours.blocks if facts and facts.neighbours else ():
        if (not block.ports or port in block.ports) and BLOCK.fullmatch(block.by):
            return f"on {name}: nft delete {block.by}"
    return ""


def _unreached(
    view: View, name: str, deaf: list[str], asked: int, by: Mapping[str, Peer]
) -> Judgement:
    address = by[deaf[0]].address
    if len(deaf) < asked or asked == 1:
        who = deaf[0]
        cause = f"{_listed(deaf)} cannot reach {name} ({address}), {asked - len(deaf)} of {asked} tested hosts can"
        fix = f"on {who}: ip route get {address}, ip neigh show {address} and nft list ruleset show the obstacle"
        fix = removal(name, view.facts.get(name), NO_PORT) or fix
        barrier = by[who].barrier
        if BARRIER.fullmatch(barrier):
            kind, _, what = barrier.partition(" del ")
            cause += f": {who} has {'a route' if kind == 'route' else 'a fixed entry for'} {what}"
            fix = f"on {who}: ip {barrier}"
        return failed(
            place(who, name),
            cause,
            fix,
            value="no answer",
            limit="an answer",
            names=(name, *deaf),
        )
    return failed(
        place(name, "network"),
        f"{name} ({address}) does not answer packets of {_listed(deaf)}",
        removal(name, view.facts.get(name), NO_PORT)
        or f"on {name}: nft list ruleset shows dropped packets; ip addr and ip route show whether the address and its network exist",
        value="no answer",
        limit="an answer",
        names=(name, *deaf),
    )


def _ports(view: View, seen: Seen) -> Iterator[Judgement]:
    for name, by in seen.items():
        lost: dict[int, list[str]] = {}
        hung: dict[int, list[str]] = {}
        for who, peer in by.items():
            for one in peer.ports:
                if one.state in SILENT and peer.small is not False:
                    lost.setdefault(one.port, []).append(who)
                if one.state == "hung":
                    hung.setdefault(one.port, []).append(who)
        for port, by_whom in lost.items():
            yield _dropped(view, name, port, by_whom)
        for port, by_whom in hung.items():
            service = SERVICES.get(port, "port")
            yield failed(
                _at(name, by_whom, f"port {port}"),
                f"{service} of {name} accepts connections but does not answer {_listed(by_whom)}",
                f"on {name}: systemctl restart nfs-server, or nfs-ganesha if it is the server; mounts then continue automatically",
                value="hung",
                limit="an answer within 1 s",
                names=(name, *by_whom),
            )


def _dropped(view: View, name: str, port: int, by_whom: list[str]) -> Judgement:
    service = SERVICES.get(port, "port")
    gets = "gets" if len(by_whom) == 1 else "get"
    fix = removal(name, view.facts.get(name), port) or removal(
        by_whom[0], view.facts.get(by_whom[0]), port
    )
    return failed(
        _at(name, by_whom, f"port {port}"),
        f"{_listed(by_whom)} {gets} no answer from {service} of {name} (port {port}), though {name} answers: a firewall drops it",
        fix
        or f"nft list ruleset on {name} shows the rule that drops port {port}; without such a rule, check firewalls between the hosts",
        value="no answer",
        limit="an answer",
        names=(name, *by_whom),
    )


def _names(view: View, asked: Mapping[str, object]) -> Iterator[Judgement]:
    for who in asked:
        said = view.facts[who].neighbours
        if said is None:
            continue
        wrong = [p for p in said.peers if p.resolved is not None and p.address not in p.resolved]
        if wrong and said.sources is not None and "files" not in said.sources.split():
            yield failed(
                place(who, "nsswitch.conf"),
                f"/etc/nsswitch.conf of {who} looks hosts up in {quoted(said.sources)}, not in files: {plural(len(wrong), 'name')} of the site {'is' if len(wrong) == 1 else 'are'} not found, such as {wrong[0].name}",
                f"on {who}: sed -i 's/^hosts:.*/hosts: files dns/' /etc/nsswitch.conf",
                value=said.sources,
                limit="files first",
            )
            wrong = []
        for peer in wrong:
            if peer.resolved is not None:
                found = ", ".join(peer.resolved) or "no address"
                yield failed(
                    place(who, peer.name),
                    f"{who} resolves {peer.name} to {found}, the site has {peer.address}",
                    f"on {who}: getent ahosts {peer.name}; check /etc/hosts and /etc/nsswitch.conf; appliance deploy --stage base --hosts {who} restores /etc/hosts",
                    value=found,
                    limit=peer.address,
                    names=(peer.name,),
                )
        lost = [server.address for server in said.name_servers if not server.route]
        dead = [s.address for s in said.name_servers if s.route and not s.answers]
        if lost:
            gateway = view.site.networks["management"].gateway or "GATEWAY"
            yield failed(
                place(who, "route"),
                f"{who} has no route to its name server {lost[0]}: nothing outside its own networks is reached",
                f"on {who}: ip route add default via {gateway}; then the file that sets it at boot",
                value="no route",
                limit="a route",
            )
        right = str(view.site.networks["management"].gateway or "")
        if (
            dead
            and said.gateway
            and right
            and said.gateway != right
            and IPV4.fullmatch(said.gateway)
        ):
            yield failed(
                place(who, "route"),
                f"the default route of {who} leads to {said.gateway}, not to {right}, the gateway of the site: no name server answers",
                f"on {who}: ip route replace default via {right}; then the file that sets it at boot",
                value=said.gateway,
                limit=right,
                limit_source="networks.management.gateway",
            )
        elif dead:
            every = len(dead) == len(said.name_servers)
            judged = failed if every else warned
            yield judged(
                place(who, "resolv.conf"),
                f"{plural(len(dead), 'name server')} of {who} {'does' if len(dead) == 1 else 'do'} not answer: {', '.join(dead)}"
                + ("; only names in /etc/hosts are found" if every else ""),
                _served(view, who)
                or f"on {who}: set servers that answer in /etc/resolv.conf, or in the program that writes it (ls -l /etc/resolv.conf)",
                value=len(dead),
                unit="servers",
                limit=0,
            )


def _served(view: View, who: str) -> str:
    """How to take the name server that most other hosts have, and that answers them; empty where none is known.

    One host's word is not enough: names of another host would be found by its server.
    """
    heard = {
        name: [
            server.address
            for server in facts.neighbours.name_servers
            if server.answers
            and IPV4.fullmatch(server.address)
            and not server.address.startswith("127.")
        ]
        for name, facts in view.facts.items()
        if name != who and facts.neighbours
    }
    server = usual(heard)
    answered = [servers for servers in heard.values() if servers]
    alike = sum(server in servers for servers in answered)
    if server is None or alike < 2 or 2 * alike <= len(answered):
        return ""
    return (
        f"on {who}: sed -i 's/^nameserver .*/nameserver {server}/' /etc/resolv.conf, which answers the other hosts; "
        "if the file is a link (ls -l /etc/resolv.conf), change the program that writes it"
    )


def _addresses(view: View, seen: Seen) -> Iterator[Judgement]:
    """Finds a second machine with a host's address. A router that answers for all addresses (proxy ARP) is ignored."""
    for host in view.site.hosts:
        facts = view.facts.get(host.name)
        interface = _interface(host, facts) if facts else None
        if facts:
            yield from _taken(view, host, facts)
        if interface is None or not interface.mac:
            continue
        strange = {
            who: peer.mac.lower()
            for who, peer in seen.get(host.name, {}).items()
            if peer.mac
            and peer.mac.lower() != interface.mac.lower()
            and not peer.barrier.startswith("neigh")  # written there by hand
        }
        for mac in dict.fromkeys(strange.values()):
            finders = [who for who, found in strange.items() if found == mac]
            finders = [who for who in finders if not _answers_for_others(seen, host, who, mac)]
            if not finders:
                continue
            owner = next((n for n, f in view.facts.items() if _has(f, mac)), "")
            finds = "find" if len(finders) > 1 else "finds"
            yield failed(
                _at(host.name, finders, "address"),
                f"{_listed(finders)} {finds} {mac}{f' of {owner}' if owner else ''} at {host.address}, {host.name} has {interface.mac}: two machines have one address",
                f"on {owner or 'the machine with that MAC'}: ip addr show; remove the address {host.address}",
                value=mac,
                limit=interface.mac,
                names=(host.name, *finders),
            )
            break


def _taken(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    """Addresses of other hosts that this one has, too."""
    owners = {str(one.address): one.name for one in view.site.hosts if one.name != host.name}
    for interface in facts.interfaces:
        for given in interface.addresses:
            address = given.partition("/")[0]
            if owner := owners.get(address):
                yield failed(
                    place(host.name, interface.name, owner),
                    f"{interface.name} of {host.name} has {address}, the address of {owner}: packets for {owner} get lost",
                    f"on {host.name}: ip addr del {given} dev {interface.name}; then the file that sets it at boot",
                    value=address,
                    limit=str(host.address),
                    names=(owner, host.name),
                )


def _answers_for_others(seen: Seen, host: Host, who: str, mac: str) -> bool:
    """Whether ``who`` finds this MAC at another host's address, too, as behind a router."""
    return any(
        name != host.name and (peer := by.get(who)) is not None and peer.mac.lower() == mac
        for name, by in seen.items()
    )


def _has(facts: HostFacts, mac: str) -> bool:
    return any(interface.mac.lower() == mac for interface in facts.interfaces)


def _listed(names: list[str]) -> str:
    first = ", ".join(names[:3])
    return first + (f" and {len(names) - 3} more" if len(names) > 3 else "")
