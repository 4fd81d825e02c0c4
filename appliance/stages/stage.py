"""What a stage is: of hosts, or of the cluster. Each is declared in its package's ``stage.py``; ``catalog`` lists them all."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from appliance.checks.check import Check, Nature
from appliance.models.drain import Why
from appliance.models.facts import HostFacts
from appliance.models.site import Host, Role, Site
from appliance.stages.context import RoleContext, Variables
from appliance.stages.restart import Restart

PINS = "appliance_repair_pins"
"""The variable that tells a role which package versions a repair restores."""
SITE_FOLDER = "appliance_site_folder"
"""The variable that tells a role where paths of the site's files start on this machine."""
PURGE = "appliance_purge"
"""The variable that tells role base which strangers' files the plan has named to be moved away."""
HOST_KEYS = "appliance_host_keys"
"""The variable that tells role base by which kinds of keys the site knows the host."""
MAY_REBOOT = "appliance_may_reboot"
"""The variable that tells a role whether the plan has named a reboot of this host."""
DRAINED = "appliance_drained"
"""The variable that tells a role whether this host was freed of work for the change."""


def always(site: Site) -> bool:
    """Every site has this stage."""
    return True


def never(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    """Applying it disturbs nobody's work."""
    return False


def silent(site: Site, host: Host, facts: HostFacts | None, variables: Variables) -> str:
    """The plan names the inputs that changed."""
    return ""


@dataclass(frozen=True)
class Stage:
    """One step of a deployment on each host. Its playbook is ``playbooks/<name>.yml``.

    ``roles``: hosts with one of these roles take part. ``after``: stages a host must have finished first.
    ``ansible_roles``: roles of the playbook, whose files enter the fingerprint. ``variables``: their variables for
    one host. ``judges``: its checks, and what of its area speaks of the machines themselves. ``units``: those the probe
    must be asked for. ``minutes``: first estimate for a bare host.

    ``wanted``: whether a site has this stage at all. ``facts_from``: stages that change facts the variables are made
    from; where one of them ran, this one's are made again before it starts. ``reboots``: whether applying the
    variables would reboot a host or unload its drivers, judged by its latest facts. ``drains``: whether a host must be
    free of work for that; such hosts go through in waves. ``drain_reason``: what their schedulers are told of it.
    ``rolls_first``: hosts with one of these roles are drained before all others, one after the other, and as long as one of
    them is behind nobody else is changed. ``plan_note``: what the plan says of a change for which a host is drained.
    ``settle_seconds``: seconds after the last change anywhere within which its checks must pass, for daemons take a while to
    find their peers. ``removable``: where the site no longer wants it, hosts that had it run it once more, and it takes
    away what it made. ``owns``: places on its hosts where nothing but its own files, and those of packages, has a
    business: folder/*, a path; "!" before what is somebody else's, "=" before what must be as its package brought it.
    ``restarts``: what applying it restarts, for the plan to name.
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
    owns: tuple[str, ...] = ()
    restarts: tuple[Restart, ...] = ()

    @cached_property
    def checks(self) -> tuple[str, ...]:
        """Ids that prove it."""
        return self._of(Nature.PROOF)

    @cached_property
    def symptoms(self) -> tuple[str, ...]:
        """Ids that speak of the host, judged with the stage but neither mended nor proved by running it."""
        return self._of(Nature.SYMPTOM, Nature.NEED)

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """Ids that must pass on a host before it is changed for the first time; what they find blocks it in the plan."""
        return self._of(Nature.NEED)

    def _of(self, *natures: Nature) -> tuple[str, ...]:
        return tuple(check.id for check in self.judges if check.nature in natures)

    def concerns(self, site: Site, host: Host) -> bool:
        """Whether ``host`` takes part."""
        return self.wanted(site) and not self.roles.isdisjoint(host.roles)

    def is_removal(self, site: Site, host: Host, facts: HostFacts | None) -> bool:
        """Whether ``host`` has it still, though the site wants it no more."""
        had = bool(facts and self.name in facts.receipts)
        return (
            self.removable
            and had
            and not self.wanted(site)
            and not self.roles.isdisjoint(host.roles)
        )


@dataclass(frozen=True)
class ClusterStage:
    """One step of a deployment for the cluster as a whole. It changes no host, and its work is in ``engine.cluster.WORK``.

    It starts when all stages before it have ended. ``hosts``: those that its cells and its outcomes name.
    ``after``: stages that must be finished on control hosts, or it does not run. ``measures``: it measures the cluster as the run
    leaves it, so it starts with facts taken after the last change, and only if all hosts answer and no stage failed.
    ``receipt``: the kind of the journal's entry that shows what it was done with last. ``noticed_by``: stages of hosts
    whose checks see its changes, with a delay. ``wanted``: whether a site has this stage at all.
    """

    name: str
    title: str
    hosts: Callable[[Site], tuple[Host, ...]]
    receipt: str
    after: tuple[str, ...] = ()
    measures: bool = False
    noticed_by: tuple[str, ...] = ()
    wanted: Callable[[Site], bool] = always
