"""MIG layouts in the site's notation, and the declared layout of each GPU."""

import re
from collections import Counter
from collections.abc import Mapping
from difflib import get_close_matches

from appliance.errors import ConfigError
from appliance.models.gpu_counts import gpu_count
from appliance.models.profile import Profile
from appliance.models.site import Host, Role, Site
from appliance.models.text_types import minutes
from appliance.stages.gpu.part import gpu_parts
from appliance.stages.mig.site import MigHost
from appliance.stages.mig.table import DISABLED, Geometry, Layout, mig_table, written

PART = re.compile(r"(?:(?P<count>[1-9]\d?)\s*[x*]\s*)?(?P<profile>\d+g\.\d+gb(?:\+[a-z]+)*)")
Names = Mapping[str, str]
"""Named layouts of a site."""


def geometry_of(model: str) -> Geometry:
    """Return the geometry of a product. Raises ConfigError if its placements are unknown."""
    found = mig_table().of(model)
    if found is None:
        known = ", ".join(part.name for part in gpu_parts().parts if part.mig)
        raise ConfigError(f"MIG placements of {model} are not known", f"known are {known}")
    return found


def parse(text: str, geometry: Geometry, own: Names | None = None) -> dict[str, int]:
    """Parse ``all-balanced``, or ``3g.40gb, 2 x 1g.10gb``: instances of one GPU, none for ``disabled``.

    ``own``: names of the site. Raises ConfigError if it cannot be made, with what would fit.
    """
    name = text.strip()
    if own and name in own:
        return parse(own[name], geometry)
    if name == DISABLED:
        return {}
    if name in geometry.layouts:
        return dict(geometry.layouts[name])
    layout: Counter[str] = Counter()
    for part in name.split(","):
        found = PART.fullmatch(part.strip())
        if found is None:
            raise ConfigError(f'"{name}" is no MIG layout', _names(name, geometry, own))
        layout[found["profile"]] += int(found["count"] or 1)
    if why := geometry.refusal(layout):
        raise ConfigError(f"MIG layout {name} cannot be made: {why}", _fitting(layout, geometry))
    return dict(layout)


def _names(name: str, geometry: Geometry, own: Names | None) -> str:
    known = [*(own or ()), *geometry.layouts, DISABLED]
    close = get_close_matches(name, known, n=1, cutoff=0.7)
    if close:
        return f'did you mean "{close[0]}"?'
    example = written(next(iter(geometry.layouts.values())))
    return f"write {example}, or one of {', '.join(known)}"


def _fitting(layout: Layout, geometry: Geometry) -> str:
    near = geometry.nearest(layout)
    return f"would fit: {written(near)}" if near else "take one of the legal layouts"


def numbers(text: str) -> list[int]:
    """Parse GPU numbers: ``0-2,5`` is 0, 1, 2, 5."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def texts(profile: Profile, site: Site, host: Host) -> dict[int, str]:
    """Return the layout of each declared GPU of a host, as written."""
    own = site.mig.hosts.get(host.name)
    whole = (own.layout if own else None) or site.mig.layout
    found = {index: whole for index in range(gpu_count(profile, host)) if whole is not None}
    for given, text in own.gpus.items() if own else ():
        found |= dict.fromkeys(numbers(given), text)
    return found


def declared(profile: Profile, site: Site, host: Host) -> dict[int, dict[str, int]]:
    """Return the declared instances of each GPU; none for a GPU without MIG. Raises ConfigError."""
    said = texts(profile, site, host)
    if not said:
        return {}
    geometry = geometry_of(profile.hardware.gpu.models[0])
    return {index: parse(said[index], geometry, site.mig.layouts) for index in sorted(said)}


def document(profile: Profile, site: Site, host: Host) -> dict[str, object]:
    """Return the declared layout for the program on the host, each instance with its placement. Raises ConfigError."""
    geometry = geometry_of(profile.hardware.gpu.models[0])
    return {
        "version": 1,
        "count": gpu_count(profile, host),
        "gpus": {
            str(index): _placed(layout, geometry)
            for index, layout in declared(profile, site, host).items()
        },
    }


def on_demand(profile: Profile, site: Site, host: Host) -> dict[str, object]:
    """Return the settings of MIG on demand for the host's program; {} if disabled. Raises ConfigError."""
    pools = site.scheduler.node_pools if site.scheduler and _is_ours(site) else ()
    pool = next((p for p in pools if p.mig_on_demand and host.name in p.hosts), None)
    if pool is None:
        return {}
    count, spoken_of = gpu_count(profile, host), declared(profile, site, host)
    sizes = [geometry_of(profile.hardware.gpu.models[0]).profile(n) for n in pool.mig_on_demand]
    return {
        "version": 1,
        "node": host.name,
        "count": count,
        "gpus": [index for index in range(count) if index not in spoken_of],
        "profiles": [
            {"profile": p.name, "id": p.id, "size": p.memory, "starts": list(p.starts)}
            for p in sizes
            if p is not None
        ],
        "whole": pool.mig_whole,
        "unused_s": minutes(pool.mig_unused) * 60,
    }


def demands(site: Site) -> bool:
    """Return whether GPUs of any host are divided on demand."""
    pools = site.scheduler.node_pools if site.scheduler and _is_ours(site) else ()
    return any(pool.mig_on_demand for pool in pools)


def _is_ours(site: Site) -> bool:
    """Return whether the site has its own cluster, whose kubelets the stages configure."""
    return site.kubernetes is not None and site.kubernetes.external is None


def _placed(layout: Layout, geometry: Geometry) -> list[dict[str, object]]:
    ids = {profile.name: profile.id for profile in geometry.profiles}
    return [
        {"profile": p.profile, "id": ids[p.profile], "start": p.start, "size": p.size}
        for p in (geometry.place(layout) or () if layout else ())
    ]


def completed(site: Site, profile: Profile) -> Site:
    """Return the site with the layout of its profile, or of each host's class, if it has none of its own."""
    if site.mig.layout is not None:
        return site
    if site.has_classes:
        return _completed_by_host(site, profile)
    if profile.stages.mig is None:
        return site
    mig = site.mig.model_copy(update={"layout": profile.stages.mig})
    return site.model_copy(update={"mig": mig})


def _completed_by_host(site: Site, profile: Profile) -> Site:
    hosts = dict(site.mig.hosts)
    for host in site.with_role(Role.GPU):
        layout, own = site.profile_of(host.name, profile).stages.mig, hosts.get(host.name)
        if layout is not None and (own is None or own.layout is None):
            hosts[host.name] = (own or MigHost()).model_copy(update={"layout": layout})
    mig = site.mig.model_copy(update={"hosts": hosts})
    return site.model_copy(update={"mig": mig})
