"""InfiniBand port facts that reach the files of other hosts. Each GUID belongs to one host."""

from collections.abc import Mapping
from functools import cache, lru_cache

from appliance.models.facts import HostFacts
from appliance.models.profile import Profile
from appliance.models.shared_facts import Contradiction
from appliance.models.site import Host, Role, Site
from appliance.stages.fabric.cabling import INFINIBAND, number
from appliance.stages.fabric.facts import Port

Facts = Mapping[str, HostFacts]

MOST_PORTS = 32
MOST_GUID = 2**64 - 1


def ports_of(
    profile: Profile,
    site: Site,
    said: Facts,
    known: Facts,
    found: dict[str, list[Contradiction]],
) -> dict[str, tuple[Port, ...]]:
    """Return the host of each GUID: the one it was accepted from, else the only one that reports it.

    Of several, a control host has it, then a host that does not report more GUIDs than its class has ports.
    """
    before = {
        h.name: {int(p.guid, 16): p for p in (known[h.name].ports if h.name in known else ())}
        for h in site.hosts
    }
    owners, adapters = _owners(before)
    now = {h.name: _guids(said.get(h.name)) for h in site.hosts}
    own = {
        h.name: {g: p for g, p in before[h.name].items() if owners[g] == h.name} for h in site.hosts
    }
    rooms = {h.name: _room(site, h, profile, own[h.name]) for h in site.hosts}
    ranks = {h.name: _rank(site, h, profile, len(now[h.name])) for h in site.hosts}
    claims: dict[int, list[str]] = {}
    for name, ports in now.items():
        for guid in ports if rooms[name] > 0 else ():
            claims.setdefault(guid, []).append(name)
    made: dict[str, tuple[Port, ...]] = {}
    for host in site.hosts:
        name, kept, room = host.name, own[host.name], rooms[host.name]
        refused: dict[tuple[str, bool], list[Port]] = {}
        for guid, port in now[name].items():
            if guid in kept:
                continue
            owner = owners.get(guid) or adapters.get(_adapter(guid, port), name)
            disputed = False
            if owner == name:
                rivals = [n for n in claims.get(guid, ()) if n != name and ranks[n] <= ranks[name]]
                owner = min(rivals, key=ranks.__getitem__, default="")
                disputed = bool(owner) and ranks[owner] == ranks[name]
            if not owner and room > 0:
                kept[guid] = port
                room -= 1
            else:
                refused.setdefault((owner, disputed), []).append(port)
        for (owner, disputed), others in refused.items():
            found.setdefault(name, []).append(_foreign_guids(others, owner, disputed=disputed))
        made[name] = tuple(kept.values())
    return made


def _room(site: Site, host: Host, profile: Profile, kept: Mapping[int, Port]) -> int:
    """How many GUIDs more the host may have than those that were accepted."""
    if not kept:
        return MOST_PORTS
    return site.profile_of(host.name, profile).hardware.fabric.ports - len(kept)


def _rank(site: Site, host: Host, profile: Profile, reported: int) -> int:
    """Whose word counts where two hosts report one GUID: the lowest."""
    if Role.CONTROL in host.roles:
        return 0
    return 1 + (reported > site.profile_of(host.name, profile).hardware.fabric.ports)


def _owners(before: Mapping[str, Mapping[int, Port]]) -> tuple[dict[int, str], dict[int, str]]:
    """Of whom each GUID was accepted, and each adapter's."""
    owners: dict[int, str] = {}
    adapters: dict[int, str] = {}
    for name, ports in before.items():
        for guid, port in ports.items():
            owners.setdefault(guid, name)
            adapters.setdefault(_adapter(guid, port), name)
    return owners, adapters


def _adapter(guid: int, port: Port) -> int:
    """The adapter's GUID where its ports' are that and their number; two hosts never have one."""
    return guid - port.port


def _foreign_guids(ports: list[Port], owner: str, *, disputed: bool) -> Contradiction:
    more = f" and {len(ports) - 1} more" if len(ports) > 1 else ""
    says = f"GUID {ports[0].guid} of {ports[0].device}{more}"
    if not owner:
        return Contradiction("ports", says, "other GUIDs were accepted")
    fix = f"compare ibstat here and on {owner}; partitions and topology do not use these GUIDs for this host"
    known = f"{owner} reports it, too" if disputed else f"{owner} has this GUID"
    return Contradiction("ports", says, known, fix, disputed)


def _guids(facts: HostFacts | None) -> dict[int, Port]:
    """Return GUIDs by number, normalised, each once. A GUID of only zeros or ones is none."""
    made: dict[int, Port] = {}
    for port in facts.ports if facts else ():
        guid = number(port.guid)
        if port.link_layer == INFINIBAND and 0 < guid < MOST_GUID and len(made) < MOST_PORTS:
            made.setdefault(guid, port_of(port.device, port.port, guid))
    return made


@lru_cache(1 << 15)
def port_of(device: str, port: int, guid: int) -> Port:
    """A port of which only the place and the GUID are known."""
    given = {"device": device, "port": port, "guid": f"{guid:#018x}"}
    return _plain_port().model_copy(update=given)


@cache
def _plain_port() -> Port:
    return Port(device="x", port=1, state="", physical="", rate=0.0, link_layer=INFINIBAND)
