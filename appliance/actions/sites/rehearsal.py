"""Rehearsal: the site as a virtual rack on this machine, brought to the deployed state, then changed like the site.

The site's folder is only read, and no host of it is contacted.
"""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_urlsafe
from types import ModuleType
from typing import Any

from appliance.actions.deployment import plan as planning
from appliance.actions.deployment.deploy import Deployed, deploy
from appliance.actions.sites import rehearsal_jobs, rehearsal_site, virtual_rack
from appliance.actions.sites.opening import Target, locate, runs_of
from appliance.actions.sites.rehearsal_jobs import Work
from appliance.actions.sites.rehearsal_site import Made
from appliance.adapters.stop_signals import INTERRUPTED, listened
from appliance.checks.extra_results import STAGE
from appliance.config import document
from appliance.config.finding import InvalidConfig
from appliance.config.load import SITE_FILE, LoadedSite
from appliance.config.new_secrets import OF_KUBERNETES, OF_SLURM
from appliance.config.schema import check
from appliance.config.secrets import resolve
from appliance.engine.accept.declared_site import (
    Declared,
    changed_secrets,
    declared,
    last_declared,
)
from appliance.engine.plan.selection import Filters
from appliance.errors import ApplianceError, ConfigError
from appliance.journal import Journal
from appliance.models.events import Observer
from appliance.models.plan import Plan
from appliance.models.result import lacking
from appliance.models.run import StageOutcome, StageState
from appliance.models.site import Owner, Site
from appliance.ownership import require_file
from appliance.report.documents import Rehearsal

Say = Callable[[str], None]
HOST_MIB, CLUSTER_MIB, SPARE_MIB = 400, 1200, 2048
"""Memory of one host with all its services, without and with Kubernetes, and what is left to this machine."""
HOSTS_PER_PROCESSOR = 4
FILL = "/var/tmp/rehearsal"
"""A file that leaves a host as little room as the site's host reported."""


class NotRaised(ApplianceError):
    """The rack did not start: nothing is known about the change."""

    exit_code = 3


@dataclass(frozen=True)
class Known:
    """What the site's journal knows. ``free``: bytes free of "/" by host, as last reported."""

    deployed: Declared | None
    free: Mapping[str, int]


@dataclass(frozen=True)
class State:
    """A site to deploy on the rack: its files, its model, and its text as data."""

    files: Declared
    site: Site
    document: document.Document


def rehearse(
    target: Target, name: str, most: int | None, *, keep: bool, say: Say, observer: Observer
) -> Rehearsal:
    """Rehearses a deployment of the site on a rack called ``name``, of at most ``most`` hosts.

    The rack is removed whatever happens, unless ``keep``. Raises ConfigError before anything is created.
    """
    maker = virtual_rack.maker()
    loaded = locate(target)
    # Before the first visit, keys of hosts are unknown.
    loaded.require_ready(by_ssh=False)
    secrets = resolve(loaded.site, loaded.folder)
    known = _known(target, loaded)
    now = State(declared(loaded.sources, secrets), loaded.site, loaded.site_document)
    before, unknown = _deployed(known)
    _refuse(maker, name, now, before)
    rehearsal = _Rehearsal(maker, name, now, before, say, observer)
    rehearsal.changed = changed_secrets(before.files, secrets) if before else frozenset()
    rehearsal.free = known.free
    with _removed(maker, name, say, keep=keep):
        done = rehearsal.run(
            loaded, most or _room(maker, cluster=loaded.site.kubernetes is not None)
        )
    lacks = (*((unknown,) if unknown else ()), *done.not_rehearsed)
    return done.model_copy(update={"not_rehearsed": lacks, "rack": name if keep else ""})


def _refuse(maker: ModuleType, name: str, now: State, before: State | None) -> None:
    maker.requirements.require()
    if maker.load(name):
        raise ConfigError(
            f"rack {name} exists",
            f"remove it: appliance lab down --name {name}, or give another --name",
        )
    for site in (state.site for state in (now, before) if state):
        why = ""
        if site.external_cluster:
            why = "an external cluster (kubernetes.external)"
        elif site.scheduler and site.scheduler.runai:
            why = "Run:ai (scheduler.runai)"
        if why:
            raise ConfigError(
                f"site {site.name} has {why}, which a rack cannot have",
                "appliance plan shows what a deployment would do, and changes nothing",
            )


def _room(maker: ModuleType, *, cluster: bool) -> int:
    """Number of hosts that this machine can hold."""
    free: int = maker.requirements.available_mib() - SPARE_MIB
    processors = os.cpu_count() or 1
    return max(
        1, min(free // (CLUSTER_MIB if cluster else HOST_MIB), processors * HOSTS_PER_PROCESSOR)
    )


def _known(target: Target, loaded: LoadedSite) -> Known:
    """Reads a copy of the journal: SQLite writes next to a file that it opens."""
    source = runs_of(target)
    with tempfile.TemporaryDirectory() as folder:
        for file in ("journal.sqlite", "journal.sqlite-wal"):
            require_file(source / file)
            if (source / file).is_file():
                shutil.copyfile(source / file, Path(folder, file))
        if not Path(folder, "journal.sqlite").exists():
            return Known(None, {})
        with Journal(Path(folder), needed=False) as journal:
            hosts = (host.name for host in loaded.site.hosts)
            free = {name: left for name in hosts if (left := _free(journal, name)) is not None}
            return Known(last_declared(journal), free)


def _free(journal: Journal, host: str) -> int | None:
    entry = journal.last("facts", host=host)
    facts: Any = entry.data.get("facts") if entry else None
    for one in facts.get("filesystems", ()) if isinstance(facts, dict) else ():
        if one.get("at") == "/" and isinstance(one.get("free"), int):
            return int(one["free"])
    return None


def _deployed(known: Known) -> tuple[State | None, str]:
    """The state of the last deployment; None and the reason if it is unknown."""
    if known.deployed is None:
        return (
            None,
            "the deployed state: no deployment is recorded, so the change was made to new hosts",
        )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, SITE_FILE)
        file.write_text(known.deployed.site, encoding="utf-8")
        try:
            read = document.read(file)
            site = check(read, Site).model
        except InvalidConfig:
            site = None
    if site is None:
        why = f"run {known.deployed.run} deployed a site that this release cannot read"
        return None, f"the deployed state: {why}, so the change was made to new hosts"
    return State(known.deployed, site, read), ""


@contextmanager
def _removed(maker: ModuleType, name: str, say: Say, *, keep: bool) -> Iterator[None]:
    """Removes the rack at the end, and also if the rehearsal was interrupted or failed."""
    done = False
    try:
        yield
        done = True
    finally:
        if not (keep and done):
            before = {s: signal.getsignal(s) for s in listened()}
            for signum in before:
                signal.signal(signum, signal.SIG_IGN)
            try:
                say(f"removing rack {name}")
                maker.down(name)
            finally:
                for signum, handler in before.items():
                    signal.signal(signum, handler)


class _Rehearsal:
    """One rehearsal on its rack."""

    def __init__(
        self,
        maker: ModuleType,
        name: str,
        now: State,
        before: State | None,
        say: Say,
        observer: Observer,
    ) -> None:
        self.maker, self.name, self.say, self.observer = maker, name, say, observer
        self.now, self.before = now, before
        self.changed: frozenset[str] = frozenset()
        self.free: Mapping[str, int] = {}
        self.rack: Any = None

    def run(self, loaded: LoadedSite, most: int) -> Rehearsal:
        """Raises the rack, deploys what is deployed, and makes the change."""
        begun = time.monotonic()
        sites = [state.site for state in (self.before, self.now) if state]
        names = rehearsal_site.chosen(sites, most)
        numbers = rehearsal_site.numbered(sites, names)
        self.say(f"raising rack {self.name}: {', '.join(names)}")
        self._raise(self._spec(loaded, sites, numbers))
        left_out = tuple(rehearsal_site.without_hosts(names, self.now.site))
        found = Rehearsal(
            site=self.now.site.name,
            change="deploy",
            outcome="passed",
            deployed=self.before.files.run if self.before else "",
            network=str(self.rack.network),
            hosts=names,
            left_out=left_out,
            not_rehearsed=(),
            seconds_rack=time.monotonic() - begun,
        )
        failing: Mapping[Any, str] = {}
        if self.before:
            begun = time.monotonic()
            self.say(f"deploying the site as run {self.before.files.run} did")
            failing, why = self._build(self.before, numbers)
            found = found.model_copy(update={"seconds_deployed": time.monotonic() - begun, **why})
        return found if found.cause else self._change(found, numbers, failing)

    def _raise(self, wanted: Any) -> None:
        try:
            self.rack = self.maker.up(wanted, self.say)
        except ConfigError:
            raise
        except ApplianceError as error:
            raise NotRaised(error.message, error.hint, error.host) from error

    def _build(
        self, before: State, numbers: Mapping[str, int]
    ) -> tuple[Mapping[Any, str], Mapping[str, object]]:
        """Deploys the recorded state: the results that are not good on the rack anyway, and what to report if it fails."""
        self._write(before, numbers)
        not_tried = {"outcome": "not tried"}
        try:
            done, _ = self._deploy()
        except ApplianceError as error:
            told = f"the deployed state could not be built: {error.told_of()}"
            return {}, {**not_tried, "cause": told, "fix": error.hint}
        for bad in _failures(done):
            told = f"the deployed state could not be built: stage {bad.stage} of {bad.host}: {bad.cause}"
            return {}, {**not_tried, "cause": told, "fix": bad.fix}
        results = done.record.results if done.record else ()
        return {r.key: r.name for r in lacking(results)}, {}

    def _change(
        self, found: Rehearsal, numbers: Mapping[str, int], failing: Mapping[Any, str]
    ) -> Rehearsal:
        made = self._write(self.now, numbers, fresh=self.changed)
        found = found.model_copy(
            update={"not_rehearsed": tuple(made.lacks), "before": tuple(failing.values())}
        )
        hosts = [host for host in self.rack.hosts if self._stays(host.name)]
        self.say("deploying the present site")
        begun = time.monotonic()
        jobs: tuple[Work, ...] = ()
        units: Mapping[str, Mapping[str, str]] = {}
        try:
            if self.before:
                drained = planning.make(self._target, Filters(), self.observer).drained
                jobs, lacks = self._work(drained)
                told = (*found.not_rehearsed, *lacks)
                found = found.model_copy(update={"not_rehearsed": told})
                units = rehearsal_jobs.services(self.maker, self.rack, hosts)
            self._fill(hosts)
            # Without the plan and the jobs, to compare it with a deployment of the site.
            begun = time.monotonic()
            done, plan = self._deploy()
        except ApplianceError as error:
            update = {"outcome": "failed", "cause": error.told_of(), "fix": error.hint}
            return found.model_copy(update=update | {"seconds_change": time.monotonic() - begun})
        seconds = time.monotonic() - begun
        after = rehearsal_jobs.services(self.maker, self.rack, hosts) if units else {}
        restarts = rehearsal_jobs.restarted(units, after)
        bad = _failures(done)
        results = done.record.results if done.record else ()
        # How a stage ended is in its outcome, too.
        new = (r for r in lacking(results) if r.key not in failing)
        checks = tuple(r for r in new if not r.id.startswith(STAGE))
        return found.model_copy(
            update={
                "outcome": "failed" if bad or checks or done.record is None else "passed",
                "plan": plan,
                "restarts": restarts,
                "unannounced": rehearsal_jobs.unannounced(restarts, plan),
                "jobs": rehearsal_jobs.states(self.maker, self.rack, jobs),
                "failures": bad,
                "checks": checks,
                "seconds_change": seconds,
            }
        )

    def _stays(self, host: str) -> bool:
        return any(one.name == host for one in self.now.site.hosts)

    @property
    def _target(self) -> Target:
        return Target(self.rack.site_dir)

    def _spec(self, loaded: LoadedSite, sites: list[Site], numbers: Mapping[str, int]) -> Any:
        files = {one.stem: str(one) for one in loaded.sources[1:]}
        hosts = {host.name: host for site in sites for host in site.hosts}
        own = str(loaded.profile_document.file)
        members = tuple(
            self.maker.Member(
                name,
                tuple(role.value for role in hosts[name].roles),
                number,
                files.get(_stem_of(hosts[name].hardware_class), own),
                hosts[name].gpus or 0,
            )
            for name, number in numbers.items()
        )
        cluster = any(site.kubernetes for site in sites)
        return self.maker.RackSpec(
            self.name, len(members), own, kubernetes=cluster, members=members
        )

    def _write(
        self, state: State, numbers: Mapping[str, int], fresh: frozenset[str] = frozenset()
    ) -> Made:
        """Writes the site's files into the rack's folder; secrets named in ``fresh`` get another value."""
        folder: Path = self.rack.site_dir
        packages = {
            "mirror": self.maker.repository.address(self.rack),
            "key": self.maker.repository.KEY,
            "fingerprint": self.maker.repository.fingerprint(self.rack),
        }
        keys = self.maker.cluster_keys()
        rack = rehearsal_site.Rack(self.rack.network, numbers, packages, keys)
        made = rehearsal_site.rehearsed(state.document, state.site, state.files.profile, rack)
        profiles = folder / "profiles"
        profiles.mkdir(exist_ok=True)
        for name, text in state.files.profiles.items():
            (profiles / f"{name}.yml").write_text(text, encoding="utf-8")
        _write_secrets(folder / "secrets", made.data["secrets"], fresh)
        (folder / SITE_FILE).write_text(document.text_of(made.data), encoding="utf-8")
        return made

    def _deploy(self) -> tuple[Deployed, Plan | None]:
        plans: list[Plan] = []

        def consent(plan: Plan) -> bool:
            plans.append(plan)
            return True

        done = deploy(self._target, Filters(), self.observer, consent)
        if done.exit_code == INTERRUPTED:
            raise KeyboardInterrupt
        return done, plans[0] if plans else None

    def _work(self, drained: tuple[str, ...]) -> tuple[tuple[Work, ...], tuple[str, ...]]:
        """Jobs and pods on the hosts that the plan does not drain, and why there are none."""
        assert self.before is not None
        site = self.before.site
        has = {Owner.SLURM: site.slurm is not None, Owner.KUBERNETES: site.kubernetes is not None}
        image = self.maker.cluster_keys().get("kubernetes", {}).get("trial_image", "")
        started: list[Work] = []
        lacks = []
        for owner in (owner for owner, there in has.items() if there):
            names = {host.name for host in site.gpu_hosts_of(owner)}.difference(drained)
            hosts = [host for host in self.rack.hosts if host.name in names]
            try:
                if owner is Owner.SLURM:
                    started += rehearsal_jobs.start(self.maker, self.rack, site, hosts)
                else:
                    started += rehearsal_jobs.start_pods(self.maker, self.rack, image, hosts)
            except ApplianceError as error:
                what = "jobs" if owner is Owner.SLURM else "pods"
                lacks.append(f"{what}: {error.told_of()}")
        return tuple(started), tuple(lacks)

    def _fill(self, hosts: list[Any]) -> None:
        """Leaves the hosts as little room as those of the site have."""
        for host in hosts:
            left = self.free.get(host.name)
            if left is None:
                continue
            script = (
                f"free=$(df --output=avail -B1 / | tail -1); more=$((free - {left})); "
                f"[ $more -le 0 ] || fallocate -l $more {FILL}"
            )
            self.maker.ssh.on_host(self.rack, host, (script,))


def _failures(done: Deployed) -> tuple[StageOutcome, ...]:
    """Stages that failed or were refused, each with its cause; without those that never began because of them."""
    outcomes = done.record.outcomes if done.record else ()
    bad = {StageState.FAILED, StageState.BLOCKED}
    return tuple(
        one.model_copy(update={"cause": one.cause or one.why})
        for one in outcomes
        if one.state in bad
    )


def _stem_of(name: str | None) -> str:
    return Path(name).stem if name else ""


def _write_secrets(folder: Path, wanted: Mapping[str, object], fresh: frozenset[str]) -> None:
    """Fresh values: the site's own never leave its folder."""
    folder.mkdir(mode=0o700, exist_ok=True)
    makers = {**OF_SLURM, **OF_KUBERNETES}
    for name in wanted:
        file = folder / name
        if file.exists() and name not in fresh:
            continue
        file.touch(mode=0o600)
        # With every kind of character that a rule for passwords may ask for.
        make = makers.get(name, lambda: f"{token_urlsafe(24)}-aA1")
        file.write_text(make() + "\n", encoding="utf-8")
