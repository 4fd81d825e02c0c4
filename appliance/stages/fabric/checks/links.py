"""Checks whether every cable runs at full width and speed; a cable is named by both ends."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from appliance.checks.causes import UNASKED, Cause, Reach
from appliance.checks.check import Check, ClusterCheck, Nature, View, failed, not_assessed, passed
from appliance.models.gap import Gap
from appliance.models.result import Judgement, Place, place
from appliance.stages.fabric import ids
from appliance.stages.fabric.cabling import Plug
from appliance.stages.fabric.causes import LINK_DOWN
from appliance.stages.fabric.checks.ports import RATE
from appliance.stages.fabric.checks.subnet import (
    cables_of,
    discovered,
    has_infiniband,
    infiniband,
    is_simulated,
    why,
)
from appliance.stages.fabric.facts import Link, Topology
from appliance.text import plural

LANE_GBPS = {
    "SDR": 2.5,
    "DDR": 5.0,
    "QDR": 10.0,
    "FDR10": 10.0,
    "FDR": 14.0,
    "EDR": 25.0,
    "HDR": 50.0,
    "NDR": 100.0,
    "XDR": 200.0,
}
"""Gb/s of one lane in the InfiniBand roadmap (data rates; FDR rounded as in the tools)."""
LANES = 4
Owners = Mapping[tuple[str, int], Plug]
"""Adapters by switch and port."""
WIDTH = re.compile(r"([0-9]{1,3})x?")


def judge_links(view: View) -> Iterable[Judgement]:
    """Pass if cables of GPU hosts and between switches have at least the profile's rate."""
    if not infiniband(view):
        return []
    rest = {"unit": "Gb/s", "simulated": is_simulated(view)}
    seen = discovered(view)
    if seen is None:
        gap = why(view, ("topology", "fabric"), "no control host could discover the fabric")
        return [not_assessed("cluster", gap, **rest)]
    cables = cables_of(view, seen[1]).items()
    owners: Owners = {socket: plug for plug, socket in cables}
    links = _concerned(owners, seen[1])
    if not links:
        cause = "discovery shows no cable of a GPU host or between switches"
        return [not_assessed("cluster", cause, **rest)]
    lowest, own_source = _limit(view)
    rest |= {"limit": lowest, "limit_source": own_source}
    rates = [rate(link) for link in links]
    results: list[Judgement] = []
    for link, own in zip(links, rates, strict=True):
        at = _place(owners, link)
        wanted, source = _limit(view, at.host)
        told = rest | {"limit": wanted, "limit_source": source}
        if 0 < own < wanted:
            results.append(_slow(link, at, wanted, told))
    results += [
        _unread(link, _place(owners, link), rest)
        for link, own in zip(links, rates, strict=True)
        if not own
    ]
    good = min(filter(None, rates), default=0)
    return results or [passed("cluster", good, evidence=plural(len(links), "cable"), **rest)]


def rate(link: Link) -> float:
    """Return Gb/s of a cable; 0 if width or speed is unknown."""
    return _rate(link.width, link.speed)


@lru_cache(256)
def _rate(width: str, speed: str) -> float:
    lanes = WIDTH.fullmatch(width)
    return int(lanes[1]) * LANE_GBPS.get(speed.upper(), 0.0) if lanes else 0.0


def _concerned(owners: Owners, topology: Topology) -> list[Link]:
    switches = {node.description for node in topology.switches}
    return [
        link
        for link in topology.links
        if (link.node in switches and link.peer in switches) or _owner(owners, link)
    ]


def _owner(owners: Owners, link: Link) -> Plug | None:
    return owners.get((link.node, link.port)) or owners.get((link.peer, link.peer_port))


def _place(owners: Owners, link: Link) -> Place:
    plug = _owner(owners, link)
    return place(plug.host, plug.device) if plug else Place()


def _limit(view: View, host: str | None = None) -> tuple[float, str]:
    """Return the required rate: of a GPU host's cable by its class, between switches the lowest of any class."""
    if host:
        view = view.of(host)
        chosen = view.profile
    else:
        of_fabric = [profile for profile in view.profiles if has_infiniband(profile)]
        chosen = min(of_fabric, key=lambda profile: profile.hardware.fabric.rate_gbps)
    own = float(chosen.hardware.fabric.rate_gbps), f"profile {chosen.name}"
    return view.number(ids.LINKS) or own


def _slow(link: Link, at: Place, wanted: float, rest: dict[str, object]) -> Judgement:
    lane = LANE_GBPS[link.speed.upper()]
    narrow, late = int(link.width.removesuffix("x")) < LANES, lane * LANES < wanted
    what = " and ".join([*(["width"] if narrow else []), *(["speed"] if late else [])]) or "rate"
    half = "half the " if rate(link) * 2 == wanted else "a reduced "
    return failed(
        at,
        f"the cable between {_ends(link)} trained at {half}{what}: {link.width} {link.speed}, "
        f"{rate(link):g} of {wanted:g} Gb/s",
        "reseat that cable at both ends and clean optical connectors; if it comes back as slow, replace it",
        aspect=_ends(link),
        value=rate(link),
        evidence=f"{link.width} {link.speed}",
        **rest,
    )


def _unread(link: Link, at: Place, rest: dict[str, object]) -> Judgement:
    said = f"{link.width} {link.speed}".strip() or "nothing"
    cause = f"discovery reports {said} for the cable between {_ends(link)}, which is no known rate"
    why = Gap(cause, (at.host,) if at.host else ())
    return not_assessed(at, why, required=False, aspect=_ends(link), **rest)


def _ends(link: Link) -> str:
    return f"{link.node} port {link.port} and {link.peer} port {link.peer_port}"


CHECKS: tuple[Check, ...] = (
    ClusterCheck(
        id=ids.LINKS,
        title="Cables run at full width and speed",
        judge=judge_links,
        explain="Width and speed of every cable as discovery reads them, including cables between switches, which no host can see. A cable that "
        "lost a lane still works, but every job that uses it waits for it.",
        limit="hardware.fabric.rate_gbps of the profile",
        bound=RATE,
        nature=Nature.SYMPTOM,
        causes=(
            UNASKED,
            LINK_DOWN,
            Cause(ids.RATE, "the port runs at the rate of its cable", Reach.PART),
        ),
    ),
)
