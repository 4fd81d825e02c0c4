"""GPU facts that reach the files of other hosts: the model, and the MIG layout."""

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

from appliance.errors import ConfigError
from appliance.models.facts import HostFacts
from appliance.models.gpu_counts import gpu_count
from appliance.models.profile import Profile
from appliance.models.shared_facts import Contradiction
from appliance.models.site import Host, Site
from appliance.stages.gpu.facts import Gpu, MigInstance, MigPart
from appliance.stages.mig.layouts import declared, on_demand
from appliance.stages.mig.table import Geometry, mig_table, written

MOST_PARTS = 7
"""Compute instances of one GPU; no geometry has more."""
Division = tuple[MigInstance, ...]
"""Empty for a whole GPU."""
Parts = tuple[tuple[str, int], ...]


def model_of(
    profile: Profile,
    said: HostFacts | None,
    known: HostFacts | None,
    found: list[Contradiction],
) -> str:
    """Return the model that Slurm names: the accepted one, else the first of the class that the host has; "" if there is none."""
    accepted, now = _models(profile, known), _models(profile, said)
    if accepted and now and accepted[0] not in now:
        found.append(Contradiction("GPUs", now[0], f"{accepted[0]} was accepted"))
    return (accepted or now or ("",))[0]


def shareable_gpus(
    profile: Profile,
    site: Site,
    host: Host,
    model: str,
    said: HostFacts | None,
    known: HostFacts | None,
    found: list[Contradiction],
) -> tuple[Gpu, ...]:
    """Return the GPUs that the class or the site gives this host, each whole or with an allowed layout."""
    count = gpu_count(profile, host)
    now, before = _by_index(said, count), _by_index(known, count)
    may = None
    made: list[Gpu] = []
    for index in sorted(now.keys() | before.keys()):
        claimed, kept = _division(now.get(index)), _division(before.get(index))
        chosen = kept if claimed is None else claimed
        if claimed is not None and instance_counts(claimed) != instance_counts(kept):
            may = may or _Allowed(profile, site, host, model)
            if not may.have(index, claimed, kept):
                chosen = kept
                if not may.is_declared(index):
                    found.append(_divided_otherwise(index, claimed, kept))
        made.append(gpu_of(index, model, instance_counts(chosen) or ()))
    return tuple(made)


def _divided_otherwise(index: int, claimed: Division, kept: Division | None) -> Contradiction:
    known = (
        f"{_division_text(kept)} was accepted"
        if kept is not None
        else "no GPU of the class supports this layout"
    )
    fix = (
        "declare it in the site's section mig, or restore the GPU's layout (docs/mig.md)"
        if kept is not None
        else "nvidia-smi mig -lgi there"
    )
    return Contradiction(f"GPU {index}", _division_text(claimed), known, fix)


def _division_text(division: Division) -> str:
    return written(Counter(i.profile for i in division)) if division else "whole"


class _Allowed:
    """Return the allowed layouts of a host's GPUs: as the site declares, on demand of pods, or as set by hand if the site is silent."""

    def __init__(self, profile: Profile, site: Site, host: Host, model: str) -> None:
        try:
            self._declared: Mapping[int, dict[str, int]] = declared(profile, site, host)
            demand = on_demand(profile, site, host)
        except ConfigError:
            self._declared, demand = {}, {}
        self._geometry = mig_table().of(model or profile.hardware.gpu.models[0])
        self._demanded = frozenset(_numbers(demand.get("gpus")))

    def is_declared(self, index: int) -> bool:
        """Return whether the site declares how this GPU is divided; that stage checks it."""
        return index in self._declared

    def have(self, index: int, division: Division, kept: Division | None) -> bool:
        """Return whether this layout is allowed."""
        layout = dict(Counter(instance.profile for instance in division))
        if any(len(i.parts) > MOST_PARTS for i in division):
            return False
        if index in self._declared:
            return layout == {k: n for k, n in self._declared[index].items() if n}
        if kept is not None and index not in self._demanded:
            return False
        if not layout:
            return True
        if self._geometry is None:
            # No geometry of this product has been published.
            return len(division) <= MOST_PARTS
        return not _refusal(self._geometry.name, self._geometry, tuple(sorted(layout.items())))


_REFUSED: dict[tuple[str, tuple[tuple[str, int], ...]], str] = {}


def _refusal(name: str, geometry: Geometry, layout: tuple[tuple[str, int], ...]) -> str:
    key = name, layout
    if key not in _REFUSED:
        if len(_REFUSED) >= 4096:
            _REFUSED.clear()
        _REFUSED[key] = geometry.refusal(dict(layout))
    return _REFUSED[key]


def _numbers(found: object) -> tuple[int, ...]:
    return tuple(n for n in found if isinstance(n, int)) if isinstance(found, list) else ()


def _models(profile: Profile, facts: HostFacts | None) -> tuple[str, ...]:
    devices = facts.gpus.devices if facts and facts.gpus else ()
    names = dict.fromkeys(str(d.name) for d in devices if d.name in profile.hardware.gpu.models)
    return tuple(names)


def _by_index(facts: HostFacts | None, count: int) -> dict[int, Gpu]:
    found: dict[int, Gpu] = {}
    for gpu in facts.gpus.devices if facts and facts.gpus else ():
        if gpu.index < count:
            found.setdefault(gpu.index, gpu)
    return found


def _division(gpu: Gpu | None) -> Division | None:
    """None if unknown."""
    if gpu is None or (gpu.mig_enabled and gpu.mig is None):
        return None
    return gpu.mig or () if gpu.mig_enabled else ()


def instance_counts(division: Division | None) -> Parts | None:
    """Return each instance with its number of compute instances, in a fixed order."""
    return None if division is None else tuple(sorted((i.profile, len(i.parts)) for i in division))


@lru_cache(4096)
def gpu_of(index: int, model: str, division: Parts) -> Gpu:
    """UUIDs and device files are not for other hosts."""
    if not division:
        return _whole(index, model)
    plain = tuple(
        MigInstance(
            profile=profile,
            profile_id=0,
            start=0,
            size=0,
            id=0,
            parts=tuple(MigPart(id=number, slices=0) for number in range(parts)),
        )
        for profile, parts in division
    )
    return _whole(index, model).model_copy(update={"mig_enabled": True, "mig": plain})


@lru_cache(1024)
def _whole(index: int, model: str) -> Gpu:
    return Gpu(index=index, uuid="", name=model, bus_id="", memory=0, mig_enabled=False)
