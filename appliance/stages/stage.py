"""The types of stages, of hosts and of the cluster. Each stage is declared in its package's ``stage.py``; ``catalog`` lists all."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from appliance.checks.check import Check, Nature
from appliance.errors import ApplianceError
from appliance.models.drain import Why
from appliance.models.facts import HostFacts
from appliance.models.site import Host, Role, Site
from appliance.stages.context import RoleContext, Variables
from appliance.stages.restart import Restart

PINS = "appliance_repair_pins"
"""The variable with the package versions that a repair restores."""
SYSTEM = "appliance_system"
"""The variable with the host's facts of the latest proof for appliance.host.apply; otherwise it reads the host."""
SITE_FOLDER = "appliance_site_folder"
"""The variable with the directory of the site's files on this machine."""
PURGE = "appliance_purge"
"""The variable with the unmanaged files that role base moves away, as listed in the plan."""
HOST_KEYS = "appliance_host_keys"
"""The variable with the kinds of the host's pinned keys, for role base."""
MAY_REBOOT = "appliance_may_reboot"
"""The variable that is true if the plan listed a reboot of this host."""
DRAINED = "appliance_drained"
"""The variable that is true if this host was drained for the change."""


def always(site: Site) -> bool:
    """Every site has this stage."""
    return True


def never(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    """Default: applying the stage does not interrupt work."""
    return False


def silent(site: Site, host: Host, facts: HostFacts | None, variables: Variables) -> str:
    """Default: the plan names only the changed inputs."""
    return ""


def nothing_in_the_way(site: Site, facts: Mapping[str, HostFacts]) -> str:
    """Default: the stage can be removed at any time."""
    return ""


def nothing_against(site: Site, host: Host, facts: Mapping[str, HostFacts]) -> str:
    """Default: the stage can be changed at any time."""
    return ""


@dataclass(frozen=True)
class Readiness:
    """Requirements that are proved before the first host is drained for a stage.

    ``request``: the probe's request for a host, by its facts and variables. ``lacks``: what a host lacks, by its facts and its
    answer. ``proofs``: ids that must pass on hosts that roll first. ``place``: where evicted work would find no other host.
    """

    request: Callable[[HostFacts, Variables], dict[str, object]]
    lacks: Callable[[Host, HostFacts, HostFacts, Variables], Iterable[ApplianceError]]
    proofs: tuple[str, ...]
    place: Callable[[Site, tuple[str, ...], Mapping[str, HostFacts]], Iterable[ApplianceError]]


@dataclass(frozen=True)
class Stage:
    """One step of a deployment on each host. Its playbook is ``playbooks/<name>.yml``.

    ``roles``: hosts with one of these roles take part. ``after``: stages a host must have finished first.
    ``ansible_roles``: roles of the playbook, whose files enter the fingerprint. ``variables``: their variables for
    one host. ``judges``: its checks, and what of its area speaks of the machines themselves. ``units``: those the probe
    must be asked for. ``minutes``: first estimate for a bare host.

    ``wanted``: whether a site has this stage. ``facts_from``: stages that change facts of the variables' inputs
    from; where one of them ran, this one's are made again before it starts. ``reboots``: whether applying the
    variables would reboot a host or unload its drivers, judged by its latest facts. ``drains``: whether a host must be
    free of work for that; such hosts go through in waves. ``drain_reason``: the reason in their schedulers.
    ``rolls_first``: hosts with one of these roles are drained before all others, one after the other, and as long as one of
    them is behind nobody else is changed. ``plan_note``: the plan's note about a change with a drain.
    ``settle_seconds``: seconds after the last change anywhere within which its checks must pass, for daemons take a while to
    find their peers. ``removable``: where the site no longer wants it, hosts that had it run it once more, and it takes
    away what it made. ``checks_removal``: whether its checks hold then, too; if not, its role proves that nothing is left. ``kept_by``: why that cannot begin now, by the facts of all hosts; "" where it can. ``blocked_by``: why a
    change of a host would fail or harm now, and what to do; "" if nothing is known. ``owns``: places on its hosts where nothing but its own files, and those of packages, has a
    business: folder/*, a path; "!" before what is somebody else's, "=" before what must be as its package brought it.
    ``within``: what it made exists inside that stage, and goes
    with it. ``restarts``: what applying it restarts, for the plan to name. ``readiness``: what must hold before hosts are drained for it.
    """

    name: str
    title: str
    roles: frozenset[Role]
    after: tuple[str, ...]
    ansible_roles: tuple[str, ...]
    variables: Callable[[RoleContext], Variables]
    judges: tuple[Check, ...]
    minutes: float
    units: tuple[str, ...] = ()
    wanted: Callable[[Site], bool] = always
    facts_from: tuple[str, ...] = ()
    reboots: Callable[[Host, HostFacts | None, Variables], bool] = never
    drains: Callable[[Host, HostFacts | None, Variables], bool] = never
    drain_reason: Why = Why.DRIVER
    settle_seconds: float = 60.0
    rolls_first: frozenset[Role] = frozenset()
    plan_note: Callable[[Site, Host, HostFacts | None, Variables], str] = silent
    removable: bool = False
    checks_removal: bool = True
    kept_by: Callable[[Site, Mapping[str, HostFacts]], str] = nothing_in_the_way
    blocked_by: Callable[[Site, Host, Mapping[str, HostFacts]], str] = nothing_against
    owns: tuple[str, ...] = ()
    restarts: tuple[Restart, ...] = ()
    readiness: Readiness | None = None
    within: "Stage | None" = None

    @cached_property
    def checks(self) -> tuple[str, ...]:
        """Return ids of checks that prove it."""
        return self._of(Nature.PROOF)

    @cached_property
    def symptoms(self) -> tuple[str, ...]:
        """Return ids of symptoms of the host, judged with the stage but neither fixed nor proved by running it."""
        return self._of(Nature.SYMPTOM, Nature.NEED)

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """Return ids that must pass on a host before it is changed for the first time; a failure blocks it in the plan."""
        return self._of(Nature.NEED)

    def _of(self, *natures: Nature) -> tuple[str, ...]:
        return tuple(check.id for check in self.judges if check.nature in natures)

    def concerns(self, site: Site, host: Host) -> bool:
        """Return whether ``host`` takes part."""
        return self.wanted(site) and not self.roles.isdisjoint(host.roles)

    def is_removal(self, site: Site, host: Host, facts: HostFacts | None) -> bool:
        """Return whether ``host`` still has a stage that the site no longer wants."""
        had = bool(facts and self.name in facts.receipts)
        return (
            self.removable
            and had
            and not self.wanted(site)
            and (self.within is None or self.within.wanted(site))
            and not self.roles.isdisjoint(host.roles)
        )


@dataclass(frozen=True)
class ClusterStage:
    """One step of a deployment for the cluster as a whole. It changes no host, and its work is in ``engine.cluster.WORK``.

    It starts when all stages before it have ended. ``hosts``: those of its cells and outcomes.
    ``after``: stages that must be finished on control hosts, or it does not run. ``measures``: it measures the cluster as the run
    leaves it, so it starts with facts taken after the last change, and only if all hosts answer and no stage failed.
    ``receipt``: the kind of the journal's entry that shows what it was done with last. ``noticed_by``: stages of hosts
    whose checks see its changes, with a delay. ``wanted``: whether a site has this stage at all. ``judges``: checks of the
    cluster, which health judges on each look; they prove nothing of a run.
    """

    name: str
    title: str
    hosts: Callable[[Site], tuple[Host, ...]]
    receipt: str
    after: tuple[str, ...] = ()
    measures: bool = False
    noticed_by: tuple[str, ...] = ()
    wanted: Callable[[Site], bool] = always
    judges: tuple[Check, ...] = ()
