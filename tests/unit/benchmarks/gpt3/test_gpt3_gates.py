"""Gates of training: per scheduler the largest published size that a site has, and none that nothing published could judge."""

import pytest

from appliance.actions.benchmarks.validate import as_owed, deciding
from appliance.benchmarks import BENCHMARKS
from appliance.benchmarks.gpt3.gates import gates
from appliance.checks.check import View, not_assessed, passed
from appliance.models.profile import Limit
from appliance.models.site import Owner, Role
from tests.support.facts import facts_of, gpus_of
from tests.support.profiles import profile_of
from tests.support.sites import site_of

A100 = "NVIDIA A100-SXM4-80GB"
GPT3 = next(one for one in BENCHMARKS if one.name == "gpt3")
LIMIT = Limit(value=5, unit="%", source="the reference")


def view(
    slurm: int, kubernetes: int = 0, gpu: str = A100, count: int = 8, asked: bool = True
) -> View:
    """So many hosts of each scheduler, the first ones Slurm's."""
    names = [f"gpu-{n}" for n in range(1, slurm + kubernetes + 1)]
    site = site_of("head", *names, limits={"gpt3.throughput": LIMIT} if asked else {})
    given = set(names[slurm:])
    hosts = tuple(
        h.model_copy(update={"owner": Owner.KUBERNETES}) if h.name in given else h
        for h in site.hosts
    )
    assert [h.name for h in hosts if Role.GPU in h.roles] == names
    facts = {name: facts_of(name, gpus=gpus_of(gpu, count)) for name in names}
    profile = profile_of(gpu={"count": count, "models": [gpu]})
    return View(profile, site.model_copy(update={"hosts": hosts}), facts)


def targets(seen: View) -> dict[str, list[str]]:
    return {
        gate.id: [target.name.removeprefix("cluster/") for target in gate.targets]
        for gate in gates(seen)
    }


@pytest.mark.parametrize(
    ("slurm", "kubernetes", "small", "large"),
    [
        (1, 0, ["bare-metal 1n"], ["bare-metal 1n"]),
        (3, 0, ["bare-metal 2n"], ["bare-metal 2n"]),
        (4, 0, ["bare-metal 4n"], ["bare-metal 4n"]),
        (9, 0, ["bare-metal 4n"], ["bare-metal 4n"]),
        (0, 4, ["kubernetes 2n"], ["kubernetes 4n"]),
        (2, 1, ["bare-metal 2n", "kubernetes 1n"], ["bare-metal 2n", "kubernetes 1n"]),
    ],
)
def test_the_largest_published_size_of_each_scheduler_is_asked_for(
    slurm: int, kubernetes: int, small: list[str], large: list[str]
) -> None:
    """Four nodes of Kubernetes are no gate of 126M: that cell is doubtful."""
    assert targets(view(slurm, kubernetes)) == {
        "gpt3.126m": [f"126m {size}" for size in small],
        "gpt3.5b": [f"5b {size}" for size in large],
    }


def test_what_a_figure_rests_on_is_that_of_the_schedulers_that_train() -> None:
    stages = {kind: gates(view(*kind))[0].stages for kind in ((2, 0), (0, 2), (1, 1))}
    assert stages == {
        (2, 0): ("gpu", "mig", "fabric", "slurm"),
        (0, 2): ("gpu", "mig", "fabric", "kubernetes"),
        (1, 1): ("gpu", "mig", "fabric", "slurm", "kubernetes"),
    }
    (first, _) = gates(view(2))
    assert (first.by_run, first.unit, first.limit) == (False, "tokens/s", LIMIT)
    assert (first.part, first.gpus, first.blocked) == (
        "126m",
        frozenset({"A100-SXM4-80GB"}),
        "",
    )


def test_a_run_of_trainings_decides_on_what_its_figures_can_close() -> None:
    assert deciding([GPT3], view(2)) == {"gpt3.126m", "gpt3.5b"}


def test_a_training_that_was_asked_for_by_name_is_owed() -> None:
    lacking = not_assessed("cluster", "no torch", required=False, fix="install it").of("gpt3.loss")
    nothing = not_assessed("cluster", "nothing to do", required=False).of("gpt3.scaling")
    assert [r.required for r in as_owed([GPT3], [lacking, nothing])] == [True, False]
    for seen in (
        passed("cluster").of("gpt3.loss"),
        lacking.model_copy(update={"value": 48_000.0}),
    ):
        assert [r.required for r in as_owed([GPT3], [seen, lacking])][1] is False


def test_without_a_limit_or_a_host_nothing_is_asked_for() -> None:
    assert gates(view(2, asked=False)) == ()
    assert gates(view(0)) == ()


@pytest.mark.parametrize(
    ("gpu", "count", "told"),
    [
        ("NVIDIA H100 80GB HBM3", 8, "8 x H100-SXM5-80GB"),
        ("NVIDIA A99", 8, "8 x NVIDIA A99"),
        (A100, 4, "4 x A100-SXM4-80GB"),
    ],
)
def test_other_gpus_have_gates_that_no_log_closes(gpu: str, count: int, told: str) -> None:
    seen = view(2, gpu=gpu, count=count)
    assert {gate.blocked for gate in gates(seen)} == {
        f"no result is published for {told} per host, so no log can be judged"
    }
    assert deciding([GPT3], seen) == set()
    silent = View(seen.profile, seen.site, {})
    assert {gate.blocked for gate in gates(silent)} == {
        f"no result is published for {count} x {gpu} per host, so no log can be judged"
    }
