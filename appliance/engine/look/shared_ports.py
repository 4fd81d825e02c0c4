"""InfiniBand port facts that reach the files of other hosts. Each GUID belongs to one host."""

from collections.abc import Mapping
from functools import cache, lru_cache

from appliance.models.facts import HostFacts
from appliance.models.profile import Profile
from appliance.models.shared_facts import Contradiction
from appliance.models.site import Site
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
    """Return the host of each GUID: the one it was accepted from, else the only one that reports it."""
    before = {
        h.name: {int(p.guid, 16): p for p in (known[h.name].ports if h.name in known else ())}
        for h in site.hosts
    }
    owners, adapters = _owners(before)
    now = {h.name: _guids(said.get(h.name)) for h in site.hosts}
    claims: dict[int, list[str]] = {}
    for name, ports in now.items():
        for guid in ports:
            claims.setdefault(guid, []).append(name)
    made: dict[str, tuple[Port, ...]] = {}
    for host in site.hosts:
        name = host.name
        kept = {g: p for g, p in before[name].items() if owners[g] == name}
        own = site.profile_of(name, profile).hardware.fabric
        room = MOST_PORTS if not kept else own.ports - len(kept)
        refused: dict[str, list[Port]] = {}
        for guid, port in now[name].items():
            if guid in kept:
                continue
            owner = owners.get(guid) or adapters.get(_adapter(guid, port), name)
            if owner == name:
                owner = next((n for n in claims[guid] if n != name), "")
            if not owner and room > 0:
                kept[guid] = port
                room -= 1
            else:
                refused.setdefault(owner, []).append(port)
        for owner, others in refused.items():
            found.setdefault(name, []).append(_foreign_guids(others, owner))
        made[name] = tuple(kept.values())
    return made


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


def _foreign_guids(ports: list[Port], owner: str) -> Contradiction:
    more = f" and {len(ports) - 1} more" if len(ports) > 1 else ""
    says = f"GUID {ports[0].guid} of {ports[0].device}{more}"
    if not owner:
        return Contradiction("ports", says, "other GUIDs were accepted")
    fix = f"compare ibstat here and on {owner}; partitions and topology do not use these GUIDs for this host"
    return Contradiction("ports", says, f"{owner} has this GUID", fix)


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
