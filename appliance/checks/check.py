"""What a check is: a pure judgement of facts against what profile and site expect."""

import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
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
)
from appliance.models.site import Host, Role, Site
from appliance.models.standing import Standing
from appliance.stages.kubernetes.facts import ExternalCluster
from appliance.text import one_line, shortened

Made = TypeVar("Made")


@dataclass(frozen=True)
class View:
    """All a check may look at. ``facts`` holds only hosts that answered, ``before`` an earlier answer of each.

    ``external``: what the API of a cluster of somebody else's answers; None where the site brings none, or nobody asked.
    ``lock``: images that were accepted; None where nobody locked any. ``unproved``: why a stage failed on a host where
    it has not been proved since. ``controllers``: what management controllers said; of those that were asked.
    ``standing``: what hosts may say to each other, and which contradict what is known of them.
    ``taken``: kind -> name -> value of every file as somebody accepted it, of hosts whose own look found something.
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
    standing: Standing = field(default_factory=Standing)
    told: dict[tuple[str, str], list[CheckResult]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    """By host and stage what its checks said to a plan, until it is judged: ten thousand hosts say a lot."""
    _made: dict[object, object] = field(default_factory=dict, init=False, compare=False, repr=False)

    def once(self, make: "Callable[[View], Made]") -> Made:
        """What ``make`` makes of all but a host, made once."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast(Made, self._made[make])

    def bounded(self, host: str) -> HostFacts | None:
        """Of a host's facts what others rely on, within bounds; None where it is left out."""
        return self.standing.facts.get(host) if self.standing.facts else self.facts.get(host)

    def limit(self, check_id: str) -> Limit | None:
        """The bound for a check: the site's, else the profile's."""
        return self.site.limits.get(check_id) or self.profile.limits.get(check_id)

    def number(self, check_id: str) -> tuple[float, str] | None:
        """The bound of site or profile for a check, and whose number it is; None where they set none.

        Its unit and range are the check's own: nothing else is loaded (``Bound``).
        """
        limit = self.limit(check_id)
        return None if limit is None else (float(limit.value or 0), limit.source)


HostJudge = Callable[[View, Host, HostFacts], Iterable[Judgement]]
ClusterJudge = Callable[[View], Iterable[Judgement]]
BmcJudge = Callable[[View, Host, BmcFacts], Iterable[Judgement]]


class Nature(StrEnum):
    """What a check speaks of, and so when it is judged and what mends it."""

    PROOF = "proof"
    """The stage: it is finished where this passes, and running it again mends what fails."""
    SYMPTOM = "symptom"
    """The host, judged where the stage is finished; running the stage again would mend nothing."""
    NEED = "need"
    """What the stage needs of a host: what fails, or is not known, keeps it from being changed for the first time."""
    HARDWARE = "hardware"
    """The machine itself: judged on every look, whichever stages are finished."""


@dataclass(frozen=True)
class HostCheck:
    """Judges each host that carries one of ``roles`` by its own facts.

    ``explain`` says in a few sentences what is measured, why it matters and what usually causes a fault; ``limit``
    what it is measured against, and whose number that is; ``bound`` what a limit of site or profile may be, None where
    they can set none. ``by_container``: what is wrong on a machine may be right in a container, so that it says nothing bad where
    that is not known. ``of_external``: judged, too, where the site's cluster is somebody else's.
    ``of_machine``: it tells what the machine is made of, for acceptance. ``causes``: whose failures
    explain its results, in order; ``explains``: what of earlier stages' checks, or of a whole area, its own failure explains.
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
    causes: tuple[Cause, ...] = ()
    explains: tuple[Effect, ...] = ()

    def results(self, view: View, host: Host, facts: HostFacts) -> list[CheckResult]:
        """What it says of a host, which may answer what it likes: what no judge foresaw is a result of that host's."""
        try:
            said = self.judge(view, host, facts)
            if self.by_container and facts.is_system_unread:
                said = [_unsure(one, facts) for one in said]
            return [one.of(self.id) for one in said]
        except ApplianceError:
            raise
        except Exception as error:  # noqa: BLE001 - it is told, and ends neither the run nor other hosts' judgement
            return [_unjudged(host.name, host.name, error).of(self.id)]


@dataclass(frozen=True)
class ClusterCheck:
    """Judges something no host can see alone (its target is "cluster")."""

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
        """What it says of the cluster; what no judge foresaw is said of it, too."""
        try:
            return [said.of(self.id) for said in self.judge(view)]
        except ApplianceError:
            raise
        except Exception as error:  # noqa: BLE001 - as of a host
            return [_unjudged(CLUSTER, "the hosts", error).of(self.id)]


@dataclass(frozen=True)
class BmcCheck:
    """Judges each host by what its management controller said; fields as of HostCheck. Nothing but ``discover`` asks it."""

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
        """What it says of a host; what no judge foresaw is said of it, too."""
        try:
            return [said.of(self.id) for said in self.judge(view, host, facts)]
        except ApplianceError:
            raise
        except Exception as error:  # noqa: BLE001 - as of a host
            return [_unjudged(host.name, f"{host.name}'s controller", error).of(self.id)]


Check = HostCheck | ClusterCheck
"""What stages bring."""
AnyCheck = Check | BmcCheck
ALL_ROLES = frozenset(Role)
WORDS = 300
"""Characters of what an exception says."""
PASS = Status.PASS
"""A member of an enumeration is looked up each time, and most of what is said is this."""
GPU_HOSTS = frozenset({Role.GPU})
CONTROL_HOSTS = frozenset({Role.CONTROL})


def judged(at: Place | str, status: Status, **told: Any) -> Judgement:
    """What is said of ``at``: a place, a host by its name, or the cluster."""
    return Judgement(at, status, told)


def passed(at: Place | str, value: Value = None, **told: Any) -> Judgement:
    """It is good."""
    told["value"] = value
    return Judgement(at, PASS, told)


def failed(at: Place | str, cause: str, fix: str, **told: Any) -> Judgement:
    """It is bad, with its one-line cause and remedy."""
    return Judgement(at, Status.FAIL, {"cause": cause, "fix": fix, **told})


def warned(at: Place | str, cause: str, fix: str, **told: Any) -> Judgement:
    """It is doubtful and ends no run, with its one-line cause and remedy."""
    return Judgement(at, Status.WARN, {"cause": cause, "fix": fix, **told})


def not_assessed(at: Place | str, why: Gap | str, **told: Any) -> Judgement:
    """It could not be had, with the reason."""
    gap = Gap(why) if isinstance(why, str) else why
    said = {"cause": gap.text, "names": gap.names, "kind": gap.kind}
    return Judgement(at, Status.NOT_ASSESSED, {**said, **told})


def _unsure(said: Judgement, facts: HostFacts) -> Judgement:
    """The same where nobody knows what the host is: nothing bad is said."""
    if said.status not in COMPLAINTS:
        return said
    why = facts.gap("os").after("whether it is a machine or a container is not known: ")
    kept = {
        key: value
        for key, value in said.told.items()
        if key not in {"cause", "fix", "value", "names", "kind"}
    }
    return not_assessed(said.at, why, **kept)


def _unjudged(at: str, who: str, error: Exception) -> Judgement:
    """A defect, of the host's answer or of the check; where it came up is in the evidence."""
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    last = traceback.extract_tb(error.__traceback__)[-1]
    return Judgement(
        at,
        Status.ERROR,
        {
            "cause": f"this check could not judge what {who} answered ({shortened(one_line(what), WORDS)})",
            "fix": "look for what is odd there; where nothing is, it is a defect of appliance: report it with this line",
            "evidence": f"{PurePath(last.filename).name}:{last.lineno}",
        },
    )


def measured_against(check: AnyCheck) -> str:
    """What a check is measured against, and what limits of site and profile may be; empty where there is nothing."""
    bound = check.bound
    parts = [check.limit]
    parts += [f"limit {check.id}: {bound}"] if bound else []
    parts += [f"limit {check.id}.NUMBER: {bound.each}"] if bound and bound.each else []
    return "; ".join(part for part in parts if part)
