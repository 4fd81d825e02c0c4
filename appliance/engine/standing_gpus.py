"""Of GPUs, what reaches files of other hosts: the model, and how each is divided."""

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

from appliance.errors import ConfigError
from appliance.models.facts import HostFacts
from appliance.models.gpus import gpu_count
from appliance.models.profile import Profile
from appliance.models.site import Host, Site
from appliance.models.standing import Contradiction
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
    """The model Slurm names: as accepted, else the first of the class that the host has; "" where it has none."""
    accepted, now = _models(profile, known), _models(profile, said)
    if accepted and now and accepted[0] not in now:
        found.append(Contradiction("GPUs", now[0], f"{accepted[0]} was accepted"))
    return (accepted or now or ("",))[0]


def divided(
    profile: Profile,
    site: Site,
    host: Host,
    model: str,
    said: HostFacts | None,
    known: HostFacts | None,
    found: list[Contradiction],
) -> tuple[Gpu, ...]:
    """The GPUs that the class or the site gives this host, each whole or divided as it may be."""
    count = gpu_count(profile, host)
    now, before = _by_index(said, count), _by_index(known, count)
    may = None
    made: list[Gpu] = []
    for index in sorted(now.keys() | before.keys()):
        claimed, kept = _division(now.get(index)), _division(before.get(index))
        chosen = kept if claimed is None else claimed
        if claimed is not None and counts(claimed) != counts(kept):
            may = may or _Allowed(profile, site, host, model)
            if not may.have(index, claimed, kept):
                chosen = kept
                if not may.is_declared(index):
                    found.append(_divided_otherwise(index, claimed, kept))
        made.append(gpu_of(index, model, counts(chosen) or ()))
    return tuple(made)


def _divided_otherwise(index: int, claimed: Division, kept: Division | None) -> Contradiction:
    known = f"{_told(kept)} was accepted" if kept is not None else "no GPU of the class can be so"
    fix = (
        "write it in the site's section mig, or divide the GPU as it was (docs/mig.md)"
        if kept is not None
        else "nvidia-smi mig -lgi there"
    )
    return Contradiction(f"GPU {index}", _told(claimed), known, fix)


def _told(division: Division) -> str:
    return written(Counter(i.profile for i in division)) if division else "whole"


class _Allowed:
    """How GPUs of a host may be divided: as the site declares, for pods that ask, or as somebody did by hand where it says nothing."""

    def __init__(self, profile: Profile, site: Site, host: Host, model: str) -> None:
        try:
            self._declared: Mapping[int, dict[str, int]] = declared(profile, site, host)
            demand = on_demand(profile, site, host)
        except ConfigError:
            self._declared, demand = {}, {}
        self._geometry = mig_table().of(model or profile.hardware.gpu.models[0])
        self._demanded = frozenset(_numbers(demand.get("gpus")))

    def is_declared(self, index: int) -> bool:
        """Whether the site says how this GPU is divided; its stage has a check of that."""
        return index in self._declared

    def have(self, index: int, division: Division, kept: Division | None) -> bool:
        """Whether it may be divided so."""
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
            # Nobody has published how this product is cut.
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
    """None where it is not known."""
    if gpu is None or (gpu.mig_enabled and gpu.mig is None):
        return None
    return gpu.mig or () if gpu.mig_enabled else ()


def counts(division: Division | None) -> Parts | None:
    """Each instance with how many compute instances it has, in one order."""
    return None if division is None else tuple(sorted((i.profile, len(i.parts)) for i in division))


@lru_cache(4096)
def gpu_of(index: int, model: str, division: Parts) -> Gpu:
    """Neither UUIDs nor device files are for others."""
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
