"""accept measures what is open, level by level: each host before the cluster, nothing twice, nothing where it proves nothing."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from appliance.actions.acceptance import accept
from appliance.actions.benchmarks import validate
from appliance.benchmarks.benchmark import (
    Benchmark,
    Outcome,
    Requirement,
    Target,
    gpu_models,
    of_cluster,
    per_host,
)
from appliance.checks.check import View, failed, passed
from appliance.engine.accept import acceptance
from appliance.engine.accept.levels import check_gates
from appliance.engine.accept.waivers import give
from appliance.engine.look.gather import Round
from appliance.engine.session import Session
from appliance.models.acceptance import Gate, Level
from appliance.models.result import CheckResult
from appliance.models.waiver import Waiver
from tests.support.facts import facts_of, gpus_of
from tests.support.measured import GPU, deployed, of_real_roles

HOSTS = ("gpu-1", "gpu-2")
GOOD = check_gates([passed("gpu-1", 8).of("gpu.count")], ())
BAD = check_gates([failed("gpu-1", "errors", "exchange it").of("gpu.ecc")], ())


@pytest.fixture
def session(session: Session) -> Session:
    """A deployed site whose GPU hosts have told which GPUs they have."""
    made = of_real_roles(session)
    deployed(made)
    return made


class Bench:
    """Three benchmarks, of a host, of the cluster and of burn-in, that note when they run and give what they are told."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.bad: set[str] = set()
        self.beyond: frozenset[str] = frozenset()
        self.all = (
            self._made("one", Level.HOST, per_host(HOSTS)),
            self._made("all", Level.CLUSTER, of_cluster(HOSTS)),
            self._made("burn", Level.BURN_IN, of_cluster(HOSTS)),
            self._made("logs", Level.TRAINING, of_cluster(HOSTS), by_run=False),
        )

    def _made(
        self, name: str, level: Level, targets: tuple[Target, ...], *, by_run: bool = True
    ) -> Benchmark:
        def gates(view: View) -> tuple[Requirement, ...]:
            return (
                Requirement(
                    id=f"{name}.gate",
                    title=name,
                    level=level,
                    benchmark=name,
                    check=f"{name}.check",
                    targets=targets,
                    close=f"appliance validate {name}",
                    limit=None,
                    stages=("gpu",),
                    gpus=gpu_models(view),
                    by_run=by_run,
                    beyond=self.beyond,
                ),
            )

        def run(view: View, remote: object) -> Outcome:
            self.ran.append(name)
            reached = [t.name for t in targets if self.beyond.isdisjoint(t.hosts)]
            return Outcome(tuple(self._result(name, target) for target in reached))

        return Benchmark(name, name, (f"{name}.check",), run, 1, "", gates=gates)

    def _result(self, name: str, target: str) -> CheckResult:
        if target in self.bad or name in self.bad:
            return failed(target, "slow", "find out").of(f"{name}.check")
        return passed(target).of(f"{name}.check")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench()
    for module in (accept, acceptance, validate):
        monkeypatch.setattr(module, "BENCHMARKS", made.all)
    return made


def _measure(session: Session, checks: tuple[Gate, ...] = GOOD) -> None:
    facts = {host: facts_of(host, gpus=gpus_of(GPU, 8)) for host in HOSTS}
    view = View(session.profile, session.site, facts)
    accept._measure(session, view, Round(facts, {}), checks)


def test_what_is_open_is_measured_in_order_and_only_once(session: Session, bench: Bench) -> None:
    _measure(session)
    assert bench.ran == ["one", "all", "burn"]
    _measure(session)
    assert bench.ran == ["one", "all", "burn"]
    session.journal.append("r2", "host_done", stage="gpu", host="gpu-2", changes=1)
    _measure(session)
    assert bench.ran[3:] == ["one", "all", "burn"]


def test_cluster_is_not_measured_before_each_host_has_passed_its_own(
    session: Session, bench: Bench
) -> None:
    bench.bad = {"gpu-2"}
    _measure(session)
    assert bench.ran == ["one"]
    bench.bad = set()
    _measure(session)
    assert bench.ran == ["one", "one", "all", "burn"]


def test_nothing_is_measured_after_a_level_that_failed(session: Session, bench: Bench) -> None:
    bench.bad = {"all"}
    _measure(session)
    assert bench.ran == ["one", "all"]


def test_host_whose_fault_is_waived_enters_the_cluster(session: Session, bench: Bench) -> None:
    bench.bad = {"gpu-2"}
    give(session, Waiver(check="one.gate", target="gpu-2", reason="known", until="2999-01-01"))
    _measure(session)
    assert bench.ran == ["one", "all", "burn"]


def test_what_a_run_cannot_close_any_more_is_not_run_again(session: Session, bench: Bench) -> None:
    bench.beyond = frozenset({"gpu-2"})
    _measure(session)
    assert bench.ran == ["one"]
    _measure(session)
    assert bench.ran == ["one"]
    bench.beyond = frozenset()
    _measure(session)
    assert bench.ran == ["one", "one", "all", "burn"]


def _undeployed(session: Session) -> Session:
    return replace(session, site=session.site.model_copy(update={"name": "another"}))


@pytest.mark.parametrize(
    ("change", "checks"), [(_undeployed, GOOD), (lambda session: session, BAD)]
)
def test_nothing_is_measured_where_it_would_prove_nothing(
    session: Session,
    bench: Bench,
    change: Callable[[Session], Session],
    checks: tuple[Gate, ...],
) -> None:
    _measure(change(session), checks)
    assert bench.ran == []


def test_nothing_is_measured_on_simulated_hardware(session: Session, bench: Bench) -> None:
    facts = {h: facts_of(h, gpus=gpus_of(GPU, 8), simulated=["gpu"]) for h in HOSTS}
    view = View(session.profile, session.site, facts)
    accept._measure(session, view, Round(facts, {}), GOOD)
    assert bench.ran == []
