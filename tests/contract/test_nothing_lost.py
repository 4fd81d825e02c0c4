"""Two results about one thing are two results in every format: what a look finds is keyed by what it says, and ranked before it is folded."""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from appliance.checks import check as checking
from appliance.checks.causes import explain
from appliance.checks.check import View
from appliance.engine.look.judge import judge_all
from appliance.engine.look.probe_requests import ALL_CHECK_IDS
from appliance.engine.look.survey import view_of
from appliance.models.result import CheckResult, Status, Verdict, apart, worst_of_each
from appliance.models.run import RunRecord
from appliance.report import nagios, prometheus
from appliance.report.console import health_view
from appliance.report.documents import Health
from appliance.report.findings import findings
from appliance.report.html import render as render_html
from appliance.report.html.checks import open_points
from appliance.stages.catalog import CAUSES, CHECKS
from appliance.watch import rules
from appliance.watch.place import SLURM
from appliance.watch.verdict import Verdict as WatchVerdict
from appliance.watch.verdict import metrics
from tests.golden.faults import FAULTS
from tests.golden.faults import planted as planted_fault
from tests.golden.record import at_work
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
SITE = site_of("head", "gpu-1")
KINDS = sorted({check.id for check in CHECKS})


def table(results: list[CheckResult]) -> str:
    out = StringIO()
    console = Console(file=out, width=400, color_system=None)
    health_view(console, "acme", results, findings(results), hosts=1)
    return out.getvalue()


def as_json(results: list[CheckResult]) -> str:
    verdict = Verdict.FAILED
    return Health(
        site="acme", verdict=verdict, seconds=1.0, simulated=(), results=tuple(results)
    ).model_dump_json()


def record(results: list[CheckResult]) -> RunRecord:
    return RunRecord(
        run="r1",
        verb="health",
        site="acme",
        profile="hpc",
        started=AT,
        finished=AT,
        user="kim",
        appliance="0.1.0",
        control_host="head",
        verdict=Verdict.FAILED,
        results=tuple(results),
    )


def points(results: list[CheckResult]) -> str:
    """The page's list of what is to be done."""
    return "\n".join(f"{p.id} {p.status} {p.cause} {p.more}" for p in open_points(record(results)))


FORMATS: dict[str, Callable[[list[CheckResult]], str]] = {
    "table": table,
    "json": as_json,
    "nagios": lambda results: nagios.render("acme", results)[0],
    "prometheus": lambda results: prometheus.render("acme", results, AT),
    "html": lambda results: render_html(record(results)),
    "open points": points,
    "report": lambda results: record(results).model_dump_json(),
}


def two(check: str, order: int) -> list[CheckResult]:
    """What a check found of one thing, in either order: a failure, and a warning."""
    common: dict[str, Any] = {"id": check, "target": "gpu-1/GPU 3"}
    failure = {"status": Status.FAIL, "aspect": "first", "cause": "it broke", "fix": "mend it"}
    warning = {"status": Status.WARN, "aspect": "second", "cause": "it ails", "fix": "watch it"}
    found = [CheckResult(**common, **failure), CheckResult(**common, **warning)]
    return found[::order]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("form", FORMATS)
def test_two_results_of_one_check_and_target_are_both_there(form: str, order: int) -> None:
    for check in KINDS:
        told = FORMATS[form](two(check, order))
        if form == "prometheus":
            statuses = re.findall(
                r'appliance_check_status\{.*aspect="(\w+)".*status="(\w+)"\} 1', told
            )
            assert sorted(statuses) == [("first", "fail"), ("second", "warn")], check
        else:
            assert "it broke" in told, check
            assert "it ails" in told, check


@pytest.mark.parametrize("form", FORMATS)
def test_a_record_of_before_aspects_keeps_both(form: str) -> None:
    """The graver one, where a series may stand only once."""
    old = [one.model_copy(update={"aspect": ""}) for one in two("gpu.xid", 1)]
    told = FORMATS[form](old)
    if form == "prometheus":
        assert re.findall(r'appliance_check_status\{.*status="(\w+)"\} 1', told) == ["fail"]
        assert 'status="warn"} 1' in told
    else:
        assert "it broke" in told
        assert "it ails" in told


def test_what_no_aspect_tells_apart_is_numbered_the_worst_first() -> None:
    same = [one.model_copy(update={"aspect": ""}) for one in two("gpu.xid", -1)]
    assert [(one.status, one.aspect) for one in apart(same)] == [
        (Status.WARN, "2"),
        (Status.FAIL, ""),
    ]
    assert len(worst_of_each(apart(same))) == 2


def xid(code: int, **said: str) -> dict[str, Any]:
    return {"code": code, "bus_id": "0000:47:00", "age": 60.0, "text": f"): {code}, x", **said}


GPU = {"index": 3, "uuid": "GPU-3", "name": "A", "bus_id": "00000000:47:00.0", "memory": 1 << 36}


def memory() -> dict[str, Any]:
    module = {"label": "DIMM_A1", "corrected": 90, "uncorrected": 1}
    return {
        "controllers": 2,
        "corrected": 90,
        "uncorrected": 1,
        "since_s": 86400.0,
        "modules": [module],
    }


def pcie(*counts: int) -> dict[str, Any]:
    said = dict(zip(("fatal", "nonfatal", "correctable"), counts, strict=True))
    return {
        "devices": 9,
        "errors": [{"at": "0000:17:00.0", "device": "mlx5_0", **said}],
        "uncounted": [],
    }


def port(**counters: int) -> list[dict[str, Any]]:
    known = {"symbol_error": 0, "link_downed": 0, **counters}
    return [
        {
            "device": "mlx5_0",
            "port": 1,
            "link_layer": "InfiniBand",
            "state": "4: ACTIVE",
            "physical": "5: LinkUp",
            "rate": 200.0,
            "counters": known,
        }
    ]


PLANTED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "gpu.xid": ({}, {"xid_events": [xid(79), xid(45)]}),
    "base.memory_errors": ({}, {"memory_errors": memory()}),
    "base.pcie_errors": ({"pcie_errors": pcie(0, 0, 0)}, {"pcie_errors": pcie(1, 3, 9000)}),
    "fabric.errors": ({"ports": port()}, {"ports": port(symbol_error=500, link_downed=3)}),
}
"""By check: what a host said before, and what it says now, where one thing has two faults."""


def planted(check: str) -> list[CheckResult]:
    before, now = PLANTED[check]
    gpus = {"driver": "580", "nvml": "12", "devices": [GPU]}
    host = facts_of("gpu-1", taken="2026-11-26T12:30:00Z", gpus=gpus, **now)
    then = facts_of("gpu-1", taken="2026-11-26T12:00:00Z", gpus=gpus, **before)
    class_ = profile_of(fabric={"link_layer": "InfiniBand", "ports": 1, "rate_gbps": 200})
    view = View(class_, SITE, {"gpu-1": host}, {"gpu-1": then})
    return explain(said_by(check, view, "gpu-1"), CAUSES)


@pytest.mark.parametrize("check", PLANTED)
def test_a_check_that_can_say_two_things_tells_them_apart(check: str) -> None:
    found = [r for r in planted(check) if r.status in {Status.FAIL, Status.WARN}]
    assert len(found) >= 2
    assert len({r.target for r in found}) == 1
    assert len({r.key for r in found}) == len(found)
    assert all(r.aspect and not r.aspect.isdigit() for r in found)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("check", PLANTED)
def test_no_format_loses_what_was_planted(check: str, form: str) -> None:
    results = planted(check)
    told = FORMATS[form](results)
    for result in results:
        if result.status not in {Status.FAIL, Status.WARN}:
            continue
        if form == "prometheus":
            assert f'aspect="{result.aspect}"' in told
        elif not result.explained_by:
            assert result.cause.partition(",")[0] in told
        else:
            assert result.id in told


@pytest.mark.parametrize("form", FORMATS)
def test_the_message_that_follows_a_fatal_one_stands_under_it(form: str) -> None:
    first, second = planted("gpu.xid")
    assert (first.aspect, second.aspect) == ("Xid 79", "Xid 45")
    assert second.explained_by == first.name
    told = FORMATS[form]([second, first])
    assert ("fell off the PCI bus" in told) == (form != "prometheus")
    (finding,) = findings([second, first])
    assert finding.result == first
    assert finding.explains == (second,)


def expects(**more: Any) -> dict[str, Any]:
    return {"xids": "79", "xids_by_severity": "145 149", "xid_hours": 24.0, **more}


def causes(*events: dict[str, Any]) -> Iterator[str]:
    facts = {"gpus": {"devices": [GPU]}, "xid_events": list(events)}
    yield from (str(cause) for cause in rules._xids(facts, expects()))


def test_the_drain_reason_names_the_fatal_one_of_two_and_nonfatal_ones_drain_nobody() -> None:
    assert list(causes(xid(79), xid(45))) == ["gpu.xid GPU 3: Xid 79, x"]
    assert list(causes(xid(145, severity="Nonfatal"))) == []
    both = causes(xid(149, severity="Fatal"), xid(149, severity="Nonfatal"))
    assert list(both) == ["gpu.xid GPU 3: Xid 149, x"]
    assert list(causes(xid(149))) == ["gpu.xid GPU 3: Xid 149, x"]


def test_the_alert_sees_each_fatal_code_not_the_last_one() -> None:
    facts = {"gpus": {"devices": [GPU]}, "xid_events": [xid(79), xid(149), xid(45), xid(13)]}
    seen = WatchVerdict([], [])
    seen.xids = rules.xids(facts, expects())
    told = [
        line
        for line in metrics(SLURM, seen).splitlines()
        if line.startswith("appliance_watch_xid{")
    ]
    assert told == [
        'appliance_watch_xid{scheduler="slurm",gpu="3",code="79"} 1',
        'appliance_watch_xid{scheduler="slurm",gpu="3",code="149"} 1',
    ]


def test_no_check_relies_on_numbers_to_tell_its_results_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbered: set[str] = set()

    def spy(said: Sequence[CheckResult]) -> Sequence[CheckResult]:
        found = apart(said)
        numbered.update(
            f"{one.id} {one.target}"
            for one, made in zip(said, found, strict=True)
            if one is not made
        )
        return found

    monkeypatch.setattr(checking, "apart", spy)
    with at_work("infiniband", tmp_path) as site:
        session = site.settled.session
        for fault in FAULTS:
            found = planted_fault(session.site, site.settled.found, fault)
            assert judge_all(view_of(session, found), found, ALL_CHECK_IDS)
    assert numbered == set()
