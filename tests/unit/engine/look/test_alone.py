"""A machine is judged without its site: by its class, and by nothing that only a site can say."""

import pytest

from appliance.actions.monitoring import health
from appliance.checks.check import HostCheck
from appliance.config.load import load_profile
from appliance.engine.look import alone
from appliance.errors import ConfigError
from appliance.models.facts import HostFacts
from appliance.models.result import Status
from appliance.report.advice import for_the_control_machine
from appliance.stages.catalog import CHECKS
from tests.support.command_line import run
from tests.support.engine_fakes import receipt_of
from tests.support.facts import facts_of

PROFILE = load_profile("hpc")


def judged(facts: HostFacts) -> dict[str, Status]:
    return {r.id: r.status for r in alone.judge_alone(facts, PROFILE, alone.ALONE)}


def test_only_checks_of_single_hosts_are_judged() -> None:
    of_hosts = {check.id for check in CHECKS if isinstance(check, HostCheck)}
    assert of_hosts >= alone.ALONE


def test_a_machine_that_lost_its_gpus_fails_by_its_class() -> None:
    results = judged(facts_of("gpu-1", pci_gpus=0))
    assert results["gpu.count"] is Status.FAIL
    assert "slurm.munge" not in results


def test_a_deployed_host_that_lost_every_gpu_is_still_a_gpu_host() -> None:
    receipts = {stage: receipt_of(stage, "f") for stage in ("base", "gpu")}
    assert judged(facts_of("gpu-1", pci_gpus=0, receipts=receipts))["gpu.count"] is Status.FAIL


def test_a_deployed_host_without_gpus_is_not_compared_with_the_class() -> None:
    results = judged(facts_of("head", pci_gpus=0, receipts={"base": receipt_of("base", "f")}))
    assert not results.keys() & alone.OF_CLASS
    assert "base.drift" in results


def test_stages_of_the_machine_are_judged_by_their_receipts() -> None:
    results = judged(
        facts_of(
            "gpu-1", receipts={"gpu": receipt_of("gpu", "f"), "slurm": receipt_of("slurm", "f")}
        )
    )
    assert "slurm.munge" in results
    assert "kubernetes.kubelet" not in results


def test_unread_receipts_are_not_assessed_and_never_good() -> None:
    denied = {"receipts": "/var/lib/appliance/receipts: Permission denied"}
    facts = facts_of("gpu-1", user="alice", errors=denied)
    (found,) = [
        r for r in alone.judge_alone(facts, PROFILE, alone.ALONE) if r.id == "host.receipts"
    ]
    assert (found.status, found.required) == (Status.NOT_ASSESSED, True)


def test_this_machine_is_read_and_judged() -> None:
    seen = health.of_this_machine("hpc", ("base.memory", "gpu"))
    ids = {result.id for result in seen.results}
    assert {"base.memory", "gpu.count"} <= ids
    assert all(name.startswith(("base.memory", "gpu.")) for name in ids)
    assert seen.alone == "a GPU host of class hpc"


def test_a_check_that_needs_the_site_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"slurm\.nodes: not judged without the site"):
        health.of_this_machine("hpc", ("slurm.nodes",))


def test_a_remedy_says_where_to_type_a_command_of_the_site() -> None:
    fix = "systemctl start x; if that fails: appliance deploy --hosts gpu-1, then appliance health"
    assert for_the_control_machine(fix) == (
        "systemctl start x; if that fails: on the control machine: appliance deploy --hosts gpu-1, then appliance health"
    )
    assert for_the_control_machine("appliance profile list") == "appliance profile list"


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ((), "--local needs --profile"),
        (("--profile", "hpc", "--hosts", "gpu-1"), "--local excludes"),
        (("--profile", "hpc", "--since", "baseline"), "--local excludes"),
        (("--profile", "no-such"), 'unknown profile: "no-such"'),
    ],
)
def test_options_of_a_site_are_refused(
    words: tuple[str, ...],
    refusal: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, "health", "--local", *words) == 2
    assert refusal in capsys.readouterr().err


def test_the_answer_says_that_it_is_no_verdict_on_the_site(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(monkeypatch, "health", "--local", "--profile", "hpc", "--check", "gpu.count")
    assert code == 1
    assert capsys.readouterr().out.startswith("This machine alone, as a GPU host of class hpc.")
