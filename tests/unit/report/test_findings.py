"""What follows from a failure stands under it, and a site of twice the size takes twice the work."""

import pytest

from appliance.models.result import CheckResult, Status
from appliance.report.findings import Roots, findings


def of(check: str, target: str, explained_by: str = "", cause: str = "") -> CheckResult:
    return CheckResult(
        id=check, target=target, status=Status.FAIL, explained_by=explained_by, cause=cause
    )


def chain(host: str) -> list[CheckResult]:
    """One failure, what follows from it, and what follows from that."""
    return [
        of("slurm.nodes", host, f"slurm.gres {host}"),
        of("slurm.gres", host, f"gpu.driver {host}"),
        of("gpu.driver", host),
    ]


def test_a_chain_of_causes_is_one_finding() -> None:
    (finding,) = findings(chain("gpu-1"))
    assert finding.result.id == "gpu.driver"
    assert [r.id for r in finding.explains] == ["slurm.nodes", "slurm.gres"]


def test_a_cause_that_is_not_known_or_leads_back_leaves_a_result_to_itself() -> None:
    lonely = of("a", "x", "b x")
    one, other = of("c", "x", "d x"), of("d", "x", "c x")
    roots = Roots([lonely, one, other])
    assert [roots.of(r) for r in (lonely, one, other)] == [lonely, one, other]


def test_work_grows_with_the_number_of_results(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    real = CheckResult.name.fget  # type: ignore[attr-defined]

    def name(result: CheckResult) -> str:
        looked.append(result.target)
        found: str = real(result)
        return found

    monkeypatch.setattr(CheckResult, "name", property(name))
    counts = []
    for hosts in (20, 40):
        looked.clear()
        assert len(findings(r for n in range(hosts) for r in chain(f"gpu-{n}"))) == hosts
        counts.append(len(looked))
    assert 0 < counts[1] <= 2 * counts[0]
