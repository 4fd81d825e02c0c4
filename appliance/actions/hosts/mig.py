"""Mig: the layouts of GPUs, the changes to the declared ones, and their deployment by stages mig and slurm."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from appliance.actions.deployment.deploy import Deployed, deploy
from appliance.actions.sites.opening import Target, locate, open_session
from appliance.adapters.json_answers import parsed
from appliance.engine.host_names import named_hosts
from appliance.engine.look.gather import DEFECT, PYTHON, each
from appliance.engine.look.shared_baseline import accept_undivided_gpus
from appliance.engine.plan.selection import Filters
from appliance.engine.run.drain import Drain, drain, resume
from appliance.engine.run.lease import leased
from appliance.engine.run.receipts import remove_receipts
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.mig import bundle
from appliance.models.drain import Why
from appliance.models.events import Message, Observer
from appliance.models.plan import Plan
from appliance.models.site import Host, Role
from appliance.stages.mig.answer import answered
from appliance.stages.mig.layouts import declared, document, texts
from appliance.text import one_line, shortened

DEADLINE = 300.0
Gpus = list[dict[str, Any]]
DIFFERS, REFUSED, FAILED = "differs", "refused", "failed"
WHOLE = frozenset({"unchanged", "changed"})
"""States of a GPU that has the requested layout."""


@dataclass(frozen=True)
class MigAnswers:
    """The answers of hosts: their GPUs, or why they did not answer."""

    site: str
    simulated: bool
    hosts: Mapping[str, Gpus]
    silent: Mapping[str, ApplianceError]

    @property
    def differing(self) -> tuple[str, ...]:
        """Hosts with a GPU that differs from the declared layout."""
        return tuple(
            h for h, gpus in self.hosts.items() if any(g.get("state") != "unchanged" for g in gpus)
        )

    @property
    def answered(self) -> bool:
        """Whether every host answered."""
        told = all(
            "error" not in g and g.get("state") != FAILED for gs in self.hosts.values() for g in gs
        )
        return told and not self.silent


def show(target: Target, observer: Observer, hosts: tuple[str, ...] = ()) -> MigAnswers:
    """Every GPU as it is; changes nothing."""
    with open_session(target, "mig", observer) as session:
        return _ask(session, [(host, "show", None) for host in _chosen(session, hosts)])


def plan(target: Target, observer: Observer, hosts: tuple[str, ...] = ()) -> MigAnswers:
    """Every declared GPU with the planned change; changes nothing. Raises ConfigError if nothing is declared."""
    with open_session(target, "mig", observer) as session:
        return _planned(session, hosts)


def apply(
    target: Target,
    observer: Observer,
    consent: Callable[[Plan], bool],
    drain_for: float | None = None,
) -> Deployed:
    """Runs stages mig and slurm on the whole site. ``drain_for``: seconds to wait for the work of hosts that differ."""
    with open_session(target, "mig", observer) as session:
        seen = _planned(session, ())
        hosts = seen.differing if drain_for is not None else ()
        stages = ("mig", "slurm") if session.site.slurm else ("mig",)
        if hosts:
            observer.handle(Message(text=f"{', '.join(hosts)}: draining, no new work is accepted"))
            remedy = "wait longer with --wait, or end the work: scancel, kubectl delete pod"
            drain(session, hosts, Drain(Why.MIG, drain_for or 0.0, remedy=remedy))
        try:
            return deploy(target, Filters(stages=stages), observer, consent)
        finally:
            if hosts:
                resume(session, hosts)


def disable(target: Target, observer: Observer, hosts: tuple[str, ...]) -> MigAnswers:
    """Disables MIG on GPUs and removes what partitions them at boot. Raises ConfigError if the site declares instances."""
    with open_session(target, "mig", observer, changes=True) as session:
        chosen = _chosen(session, hosts)
        for host in chosen:
            if any(declared(session.profile_of(host.name), session.site, host).values()):
                said = next(iter(texts(session.profile_of(host.name), session.site, host).values()))
                raise ConfigError(
                    f"the site declares {said} for GPUs of {host.name}: they would be partitioned again",
                    "set layout: disabled under mig in site.yml, then run appliance mig apply",
                )
        with leased(session, [host.name for host in chosen]):
            seen = _ask(session, [(host, "disable", None) for host in chosen])
        whole: list[str] = []
        # If a GPU could not be changed, the receipt makes the next deployment finish the work.
        for name, gpus in seen.hosts.items():
            if gpus and all(g.get("state") in WHOLE for g in gpus):
                remove_receipts(session.remote, name, ["mig"])
                whole.append(name)
        accept_undivided_gpus(session, whole)
        return seen


def follow(target: Target, observer: Observer, consent: Callable[[Plan], bool]) -> Deployed | None:
    """Stage slurm after ``disable``; None if the site has no Slurm."""
    if locate(target, raise_rack=False, observer=observer).site.slurm is None:
        return None
    return deploy(target, Filters(stages=("slurm",)), observer, consent)


def _planned(session: Session, hosts: tuple[str, ...]) -> MigAnswers:
    if not session.site.mig.declares:
        raise ConfigError(
            f"site {session.site.name} declares no MIG layout",
            "add mig: {layout: all-balanced} to site.yml (docs/mig.md)",
        )
    return _ask(
        session,
        [
            (host, "plan", document(session.profile_of(host.name), session.site, host))
            for host in _chosen(session, hosts)
        ],
    )


def _chosen(session: Session, hosts: tuple[str, ...]) -> list[Host]:
    known = session.site.with_role(Role.GPU)
    only = named_hosts(hosts, [host.name for host in known], flag="--hosts", kind="GPU host")
    return [host for host in known if not only or host.name in only]


def _ask(
    session: Session, asked: Iterable[tuple[Host, str, dict[str, object] | None]]
) -> MigAnswers:
    requests: dict[str, dict[str, object]] = {
        host.name: {"verb": verb, "declared": said} for host, verb, said in asked
    }
    answers = dict(each(requests, lambda host: _answer(session, host, requests[host])))
    return MigAnswers(
        session.site.name,
        "gpu" in session.site.simulated,
        {host: answer for host, answer in answers.items() if isinstance(answer, list)},
        {host: answer for host, answer in answers.items() if isinstance(answer, ApplianceError)},
    )


def _answer(session: Session, host: str, request: dict[str, object]) -> Gpus | ApplianceError:
    """A host's failure is a value."""
    try:
        done = session.remote.run(
            host, bundle.command(PYTHON), input=bundle.payload(request), timeout=DEADLINE
        )
    except ApplianceError as error:
        return error
    try:
        said = parsed(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        text = f"appliance-mig did not run: {shortened(one_line(session.redact(last)), 200)}"
        return ApplianceError(text, f"{PYTHON} 3.8 or newer", host)
    try:
        answer = answered(said)
    except ValueError as error:
        return ApplianceError(f"the answer of appliance-mig cannot be read: {error}", DEFECT, host)
    if answer.get("error"):
        return ApplianceError(answer["error"], "appliance health --check gpu", host)
    gpus: Gpus = answer["gpus"]
    return gpus
