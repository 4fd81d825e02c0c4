"""Defines checks: pure judgements of facts against profile and site."""

import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import PurePath
from typing import Any, TypeVar, cast

from appliance.checks.causes import Cause, Effect
from appliance.errors import ApplianceError
from appliance.models.bmc import BmcFacts
from appliance.models.bound import Bound
from appliance.models.facts import HostFacts
from appliance.models.gap import Gap
from appliance.models.images import ImageLock
from appliance.models.profile import Limit, Profile
from appliance.models.result import (
    CLUSTER,
    COMPLAINTS,
    CheckResult,
    Judgement,
    Place,
    Status,
    Value,
    apart,
)
from appliance.models.shared_facts import SharedFacts
from appliance.models.site import Host, Role, Site
from appliance.stages.kubernetes.facts import ExternalCluster
from appliance.stages.runai.facts import RunaiAnswer
from appliance.text import one_line, shortened

Made = TypeVar("Made")


@dataclass(frozen=True)
class View:
    """Everything a check may read.

    ``profile``: the profile of the host's class, else the site's own. ``facts`` holds only hosts that answered,
    ``before`` an earlier answer of each.
    ``external``: the API's answers of an external cluster; None if the site has none, or it was not asked.
    ``runai``: the same of Run:ai's control plane.
    ``lock``: accepted images; None if none were locked. ``unproved``: why a stage failed on a host where it has
    not been proved since. ``controllers``: answers of the BMCs that were asked.
    ``standing``: facts that may reach other hosts, and the contradictions.
    ``taken``: kind -> name -> value of every file as accepted, of hosts whose own check found a change.
    """

    profile: Profile
    site: Site
    facts: Mapping[str, HostFacts]
    before: Mapping[str, HostFacts] = field(default_factory=dict)
    external: ExternalCluster | None = None
    lock: ImageLock | None = None
    unproved: Mapping[tuple[str, str], str] = field(default_factory=dict)
    controllers: Mapping[str, BmcFacts] = field(default_factory=dict)
    taken: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    standing: SharedFacts = field(default_factory=SharedFacts)
    runai: RunaiAnswer | None = None
    told: dict[tuple[str, str], list[CheckResult]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    """Results of a plan's checks by host and stage, kept until the site is judged."""
    _made: dict[object, object] = field(default_factory=dict, init=False, compare=False, repr=False)

    def once(self, make: "Callable[[View], Made]") -> Made:
        """Return what ``make`` computes for all hosts, computed once."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast(Made, self._made[make])

    def bounded(self, host: str) -> HostFacts | None:
        """Return the facts of a host that others rely on, within limits; None if it is excluded."""
        return self.standing.facts.get(host) if self.standing.facts else self.facts.get(host)

    def profile_of(self, host: str) -> Profile:
        """Return the profile of a host's class."""
        return self.site.profile_of(host, self.profile)

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The profiles of the site's GPU hosts, each once."""
        return self.site.profiles(self.profile)

    def of(self, host: str) -> "View":
        """Return the view with the profile of a host's class as ``profile``; one view per class."""
        profile = self.profile_of(host)
        if profile is self.profile:
            return self
        key = "view", profile.name
        if key not in self._made:
            self._made[key] = replace(self, profile=profile)
        return cast(View, self._made[key])

    def by_class(self) -> "tuple[View, ...]":
        """Return one view for each class of the site's GPU hosts: its GPU hosts, and the hosts without GPUs."""
        if len(self.profiles) > 1:
            return tuple(map(self._restricted, self.profiles))
        (profile,) = self.profiles
        return (self if profile is self.profile else replace(self, profile=profile),)

    def _restricted(self, profile: Profile) -> "View":
        key = "class", profile.name
        if key not in self._made:
            hosts = tuple(
                host
                for host in self.site.hosts
                if Role.GPU not in host.roles or self.profile_of(host.name) is profile
            )
            names = {host.name for host in hosts}
            site = self.site.model_copy(update={"hosts": hosts})
            facts = {name: facts for name, facts in self.facts.items() if name in names}
            self._made[key] = replace(self, profile=profile, site=site, facts=facts)
        return cast(View, self._made[key])

    def limit(self, check_id: str) -> Limit | None:
        """Return the limit of a check: the site's, else the profile's."""
        return self.site.limits.get(check_id) or self.profile.limits.get(check_id)

    def number(self, check_id: str) -> tuple[float, str] | None:
        """Return the limit of a check in site or profile, and its source; None if they set none.

        Its unit and range are the check's own: no other can be loaded (``Bound``).
        """
        limit = self.limit(check_id)
        return None if limit is None else (float(limit.value or 0), limit.source)


HostJudge = Callable[[View, Host, HostFacts], Iterable[Judgement]]
ClusterJudge = Callable[[View], Iterable[Judgement]]
BmcJudge = Callable[[View, Host, BmcFacts], Iterable[Judgement]]


class Nature(StrEnum):
    """What a check is about, which decides when it is judged and what fixes it."""

    PROOF = "proof"
    """The stage: it is finished if this passes, and running it again fixes a failure."""
    SYMPTOM = "symptom"
    """The host, judged once the stage is finished; running the stage again would not help."""
    NEED = "need"
    """What the stage needs of a host: a failure, or an unknown value, prevents its first deployment."""
    HARDWARE = "hardware"
    """The machine itself: judged in every run, whichever stages are finished."""


@dataclass(frozen=True)
class HostCheck:
    """Judges each host that has one of ``roles`` by its own facts.

    ``explain`` describes in a few sentences what is measured, why it matters and the usual causes of a fault.
    ``limit``: what it is measured against, with the source. ``bound``: the allowed limits of site or profile,
    None if they can set none. ``by_container``: a fault on a machine may be normal in a container, so the check
    is not judged if that is unknown. ``of_external``: judged on a site with an external cluster, too.
    ``of_machine``: describes the hardware, for acceptance. ``must_know``: the stage is not finished on a host
    where this is not assessed. ``causes``: checks whose failures explain its results, in order. ``explains``:
    what its own failure explains, of earlier stages' checks or of a whole area.
    """

    id: str
    title: str
    roles: frozenset[Role]
    judge: HostJudge
    explain: str
    limit: str = ""
    bound: Bound | None = None
    nature: Nature = Nature.PROOF
    by_container: bool = False
    of_external: bool = False
    of_machine: bool = False
    must_know: bool = False
    causes: tuple[Cause, ...] = ()
    explains: tuple[Effect, ...] = ()

    def results(self, view: View, host: Host, facts: HostFacts) -> list[CheckResult]:
        """Judge a host, whose answer is not trusted: an unforeseen error becomes a result of that host."""
        try:
            said = self.judge(view.of(host.name), host, facts)
            if self.by_container and facts.is_system_unread:
                said = [_unsure(one, facts) for one in said]
            return list(apart([one.of(self.id) for one in said]))
        except ApplianceError:
            raise
        except Exception as error:  # noqa: BLE001 - it is told, and ends neither the run nor other hosts' judgement
            return [unjudged(host.name, host.name, error).of(self.id)]


@dataclass(frozen=True)
class ClusterCheck:
    """Judges what no host can see alone (its target is "cluster")."""

    id: str
    title: str
    judge: ClusterJudge
    explain: str
    limit: str = ""
    bound: Bound | None = None
    nature: Nature = Nature.PROOF
    of_external: bool = False
    of_machine: bool = False
    causes: tuple[Cause, ...] = ()
    explains: tuple[Effect, ...] = ()

    def results(self, view: View) -> list[CheckResult]:
        """Judge the cluster; an unforeseen error becomes a result of it."""
        try:
            return list(apart([said.of(self.id) for said in self.judge(view)]))
        except ApplianceError:
            raise
        except Exception as error:  # noqa: BLE001 - as of a host
            return [unjudged(CLUSTER, "the hosts", error).of(self.id)]


@dataclass(frozen=True)
class BmcCheck:
    """Judges each host by its BMC's answer; fields as of HostCheck. Only ``discover`` runs it."""

    id: str
    title: str
    judge: BmcJudge
    explain: str
    limit: str = ""
    bound: Bound | None = None
    nature: Nature = Nature.HARDWARE
    of_external: bool = True
    of_machine: bool = False
    causes: tuple[Cause, ...] = ()
    explains: tuple[Effect, ...] = ()

    def results(self, view: View, host: Host, facts: BmcFacts) -> list[CheckResult]:
        """Judge a host; an unforeseen error becomes a result of it."""
        try:
            judged = self.judge(view.of(host.name), host, facts)
            return list(apart([said.of(self.id) for said in judged]))
        except ApplianceError:
            raise
        except Exception as error:  # noqa: BLE001 - as of a host
            return [unjudged(host.name, f"{host.name}'s controller", error).of(self.id)]


Check = HostCheck | ClusterCheck
"""Checks that stages declare."""
AnyCheck = Check | BmcCheck
ALL_ROLES = frozenset(Role)
WORDS = 300
"""Maximum length of an exception's text."""
PASS = Status.PASS
"""Attribute access on an enumeration is slow, and most results have this status."""
GPU_HOSTS = frozenset({Role.GPU})
CONTROL_HOSTS = frozenset({Role.CONTROL})


def judged(at: Place | str, status: Status, **told: Any) -> Judgement:
    """A judgement of ``at``: a place, a host by its name, or the cluster."""
    return Judgement(at, status, told)


def passed(at: Place | str, value: Value = None, **told: Any) -> Judgement:
    """A pass."""
    told["value"] = value
    return Judgement(at, PASS, told)


def failed(at: Place | str, cause: str, fix: str, **told: Any) -> Judgement:
    """A failure, with its one-line cause and remedy."""
    return Judgement(at, Status.FAIL, {"cause": cause, "fix": fix, **told})


def warned(at: Place | str, cause: str, fix: str, **told: Any) -> Judgement:
    """A warning, which fails no run, with its one-line cause and remedy."""
    return Judgement(at, Status.WARN, {"cause": cause, "fix": fix, **told})


def not_assessed(at: Place | str, why: Gap | str, **told: Any) -> Judgement:
    """A value that could not be read, with the reason."""
    gap = Gap(why) if isinstance(why, str) else why
    said = {"cause": gap.text, "names": gap.names, "kind": gap.kind}
    return Judgement(at, Status.NOT_ASSESSED, {**said, **told})


def _unsure(said: Judgement, facts: HostFacts) -> Judgement:
    """Turn a failure into "not assessed" if it is unknown whether the host is a container."""
    if said.status not in COMPLAINTS:
        return said
    why = facts.gap("os").after("whether it is a machine or a container is not known: ")
    kept = {
        key: value
        for key, value in said.told.items()
        if key not in {"cause", "fix", "value", "names", "kind"}
    }
    return not_assessed(said.at, why, **kept)


def unjudged(at: str, who: str, error: Exception) -> Judgement:
    """A defect of the host's answer or of the check; the evidence names the place in the code."""
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    last = traceback.extract_tb(error.__traceback__)[-1]
    return Judgement(
        at,
        Status.ERROR,
        {
            "cause": f"this check could not judge what {who} answered ({shortened(one_line(what), WORDS)})",
            "fix": "check the host for unusual values; if there are none, it is a bug of appliance: report it with this line",
            "evidence": f"{PurePath(last.filename).name}:{last.lineno}",
        },
    )


def measured_against(check: AnyCheck) -> str:
    """Return what a check is measured against, and the allowed limits of site and profile; empty if there are none."""
    bound = check.bound
    parts = [check.limit]
    parts += [f"limit {check.id}: {bound}"] if bound else []
    parts += [f"limit {check.id}.NUMBER: {bound.each}"] if bound and bound.each else []
    return "; ".join(part for part in parts if part)
