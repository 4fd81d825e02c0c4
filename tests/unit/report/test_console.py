"""What a terminal shows, at 80 columns and more, with and without colour."""

import io
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from appliance.models.plan import Action, HostStage, Plan
from appliance.models.result import CheckResult, ResultKey, Status, Verdict
from appliance.models.run import RunRecord, StageOutcome, StageState
from appliance.report.ascii_text import readable
from appliance.report.console import findings_list, health_view, plan_table, run_summary
from appliance.report.findings import Finding, findings

RecordBuilder = Callable[..., RunRecord]
STAGES = ("base", "gpu", "fabric", "storage", "slurm", "validate")
LONG = "a very long reason with /paths/that/do/not/break and words " * 12


def console(width: int = 80, force_terminal: bool | None = None) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=force_terminal)


def text(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return shown.file.getvalue()


def plan(hosts: tuple[str, ...], *cells: HostStage) -> Plan:
    return Plan(site="acme", profile="hpc", hosts=hosts, stages=STAGES, cells=cells)


def shown_plan(shown: Plan, width: int = 80) -> str:
    at = console(width)
    plan_table(at, shown)
    return text(at)


def cell(stage: str, host: str, action: Action, why: str = "", **more: Any) -> HostStage:
    return HostStage(stage=stage, host=host, action=action, why=why, minutes=2, **more)


class TestPlan:
    def test_a_plan_of_one_host_names_each_difference(self) -> None:
        drifts = tuple(f"file /etc/f{i} (as written → changed)" for i in range(5))
        why = f"{', '.join(drifts[:3])} and 2 more"
        found = cell("base", "gpu-1", Action.REPAIR, why, differences=drifts)
        alone, many = (shown_plan(plan(hosts, found)) for hosts in (("gpu-1",), ("head", "gpu-1")))
        assert all(drift in " ".join(alone.split()) for drift in drifts)
        assert "and 2 more" in " ".join(many.split())

    def test_a_cell_carries_its_sign_and_its_reason(self) -> None:
        out = shown_plan(
            plan(
                ("head", "gpu-1"),
                cell("base", "head", Action.SKIP),
                cell("base", "gpu-1", Action.REPAIR, "chrony.conf changed by hand"),
                cell("gpu", "gpu-1", Action.RUN, "driver 580.65 → 580.82", reboot=True),
            )
        )
        base = next(line for line in out.splitlines() if line.strip().startswith("base"))
        assert base.split()[:3] == ["base", "·", "~"]
        assert "gpu-1: chrony.conf changed by hand" in out
        assert "1 host to change, 1 untouched · gpu-1 reboots (gpu) · about 4 min" in out

    def test_what_is_restarted_is_named_once_for_hosts_of_which_it_is_the_same(self) -> None:
        out = shown_plan(
            plan(
                ("head", "gpu-1", "gpu-2"),
                cell(
                    "base", "head", Action.RUN, restarts=("chrony", "ssh"), may_restart=("rsyslog",)
                ),
                cell("base", "gpu-1", Action.RUN, restarts=("chrony",)),
                cell("base", "gpu-2", Action.RUN, restarts=("chrony",)),
                cell("gpu", "gpu-1", Action.SKIP, "checked again", may_restart=("dcgm", "chrony")),
                cell("gpu", "gpu-2", Action.BLOCKED, "waits", restarts=("dcgm",)),
            )
        )
        told = [line.strip() for line in out.splitlines() if "restart" in line]
        assert told == [
            "head: restarts chrony, ssh; may restart rsyslog",
            "gpu-1: restarts chrony; may restart dcgm",
            "gpu-2: restarts chrony",
        ]

    def test_words_stand_beside_the_signs(self) -> None:
        out = shown_plan(
            plan(("a", "b"), cell("base", "a", Action.RUN), cell("base", "b", Action.BLOCKED))
        )
        assert "+ new" in out
        assert "# blocked" in out
        assert "~ change" not in out

    def test_nothing_to_do_is_said(self) -> None:
        assert "Nothing to do." in shown_plan(plan(("a",), cell("base", "a", Action.SKIP)))

    def test_what_no_host_answered_is_not_called_nothing_to_do(self) -> None:
        out = shown_plan(plan(("a",), cell("base", "a", Action.UNKNOWN, "connection timed out")))
        assert "Nothing to do" not in out
        assert "Cannot plan" in out

    def test_a_silent_host_is_explained_once(self) -> None:
        silent = [cell(stage, "gpu-2", Action.UNKNOWN, "connection timed out") for stage in STAGES]
        out = shown_plan(plan(("gpu-1", "gpu-2"), cell("base", "gpu-1", Action.SKIP), *silent))
        assert out.count("connection timed out") == 1
        assert "? gpu-2" in out
        assert "1 of 2 hosts" in out
        assert "except that gpu-2 did not answer" in out

    def test_one_reason_for_all_needs_no_names(self) -> None:
        cells = [cell("slurm", host, Action.RUN, 'new: partition "debug"') for host in ("a", "b")]
        out = shown_plan(plan(("a", "b"), *cells))
        assert 'new: partition "debug"' in out
        assert "a, b:" not in out

    @pytest.mark.parametrize("width", [80, 120, 200])
    def test_sixty_four_hosts_fit_any_width(self, width: int) -> None:
        hosts = tuple(f"gpu-{n}" for n in range(1, 65))
        cells = [
            cell("base", h, Action.REPAIR, "drift")
            if h == "gpu-7"
            else cell("base", h, Action.SKIP)
            for h in hosts
        ]
        out = shown_plan(plan(hosts, *cells), width)
        assert max(map(cell_len, out.splitlines())) <= width
        assert "gpu-[1-6,8-64]" in out
        assert "gpu-7: drift" in out

    def test_many_different_hosts_take_several_blocks(self) -> None:
        hosts = tuple(f"a-rather-long-name-{n}x" for n in range(12))
        cells = [cell(s, h, Action.RUN) for i, h in enumerate(hosts) for s in STAGES[: i % 6 + 1]]
        cells += [cell("validate", h, Action.SKIP) for h in hosts[6:]]
        out = shown_plan(plan(hosts, *cells))
        assert max(map(cell_len, out.splitlines())) <= 80
        assert out.count("stage ") > 1
        assert all(host in out for host in hosts)

    def test_long_reasons_go_below_the_table_whole(self) -> None:
        out = shown_plan(plan(("a", "b"), cell("base", "a", Action.RUN, LONG)))
        assert max(map(cell_len, out.splitlines())) <= 80
        assert out.split().count("/paths/that/do/not/break") == 12

    def test_ascii_terminals_see_ascii(self) -> None:
        raw = io.BytesIO()
        shown = Console(file=readable(io.TextIOWrapper(raw, encoding="ascii")), width=80)
        cells = [cell("base", "a", Action.SKIP), cell("base", "b", Action.UNKNOWN, "timed out")]
        table = plan(("a", "b"), *cells)
        plan_table(shown, table, 1.0)
        shown.file.flush()
        out = raw.getvalue().decode()
        assert out.startswith("acme | hpc | facts 1.0 s")
        assert ". nothing to do" in out

    def test_markup_in_a_reason_is_text(self) -> None:
        assert "[red]x[/red]" in shown_plan(
            plan(("a",), cell("base", "a", Action.RUN, "[red]x[/red]"))
        )

    def test_benchmarks_alone_change_no_host(self) -> None:
        out = shown_plan(plan(("a", "b"), cell("validate", "a", Action.RUN, "not validated")))
        assert "no host to change, benchmarks to run" in out

    def test_what_no_deployment_mends_stands_below(self) -> None:
        lost = result("gpu.error", "b/GPU 3", Status.FAIL, cause="lost", fix="reset it")
        silent = result("host.reachable", "c", Status.FAIL, cause="no answer", fix="power it on")
        cells = [cell("base", "b", Action.SKIP), cell("base", "c", Action.UNKNOWN, "no answer")]
        shown = plan(("b", "c"), *cells).model_copy(update={"results": (lost, silent)})
        out = shown_plan(shown)
        assert "  fix: power it on" in out
        assert out.index("Nothing to do") < out.index("that a deployment cannot fix")
        assert "b GPU 3  gpu.error" in out
        assert "fix: reset it" in out
        assert out.count("no answer") == 1


def result(check: str, target: str, status: Status, **more: object) -> CheckResult:
    return CheckResult.model_validate({"id": check, "target": target, "status": status, **more})


class TestFindings:
    def test_the_worst_stands_first_and_passes_are_left_out(self) -> None:
        order = [
            Status.NOT_ASSESSED,
            Status.PASS,
            Status.WARN,
            Status.ERROR,
            Status.SKIP,
            Status.FAIL,
        ]
        found = findings(result("a.b", f"h{i}", status) for i, status in enumerate(order))
        assert [f.result.status for f in found] == [
            Status.FAIL, Status.ERROR, Status.WARN, Status.NOT_ASSESSED, Status.SKIP,
        ]  # fmt: skip

    def test_a_consequence_stands_under_its_cause_only(self) -> None:
        cause = result("gpu.error", "g/GPU 3", Status.FAIL)
        effects = [
            result(check, "g/GPU 3", Status.NOT_ASSESSED, explained_by="gpu.error g/GPU 3")
            for check in ("gpu.ecc", "gpu.remap")
        ]
        found = findings([*effects, cause])
        assert [f.result.id for f in found] == ["gpu.error"]
        assert found[0].more == "explains 2 more: gpu.ecc, gpu.remap"

    def test_a_chain_of_causes_stands_under_its_beginning(self) -> None:
        found = findings(
            [
                result("x.c", "g", Status.FAIL, explained_by="x.b g"),
                result("x.b", "g", Status.FAIL, explained_by="x.a g"),
                result("x.a", "g", Status.FAIL),
            ]
        )
        assert [(f.result.id, [r.id for r in f.explains]) for f in found] == [
            ("x.a", ["x.c", "x.b"])
        ]

    def test_a_cause_that_is_not_among_them_hides_nothing(self) -> None:
        good = result("gpu.pcie", "g", Status.PASS)
        bad = result("gpu.bandwidth", "g", Status.FAIL, explained_by="gpu.pcie g")
        assert [f.result.id for f in findings([good, bad])] == ["gpu.bandwidth"]

    def test_causes_that_explain_each_other_both_stay(self) -> None:
        a = result("x.a", "g", Status.FAIL, explained_by="x.b g")
        b = result("x.b", "g", Status.FAIL, explained_by="x.a g")
        assert {f.result.id for f in findings([a, b])} == {"x.a", "x.b"}

    def test_equal_findings_of_several_hosts_are_one_block(self) -> None:
        shown = console()
        found = [
            Finding(result("os.smart", f"gpu-{n}", Status.NOT_ASSESSED, cause="needs root"))
            for n in (1, 2, 3)
        ]
        findings_list(shown, found)
        assert text(shown).count("needs root") == 1
        assert "gpu-[1-3]  os.smart" in text(shown)

    @pytest.mark.parametrize("width", [80, 120])
    def test_long_causes_wrap_within_the_width(self, width: int) -> None:
        shown = console(width)
        findings_list(shown, findings([result("a.b", "h", Status.FAIL, cause=LONG, fix="x" * 300)]))
        assert max(map(cell_len, text(shown).splitlines())) <= width
        assert text(shown).replace("\n", "").replace(" ", "").count("x") >= 300


class TestHealth:
    def test_it_answers_first_and_in_words(self) -> None:
        pcie = result("gpu.pcie", "gpu-3/GPU 5", Status.FAIL, cause="Gen4 x8", fix="reseat")
        results = [result("a.b", "h", Status.PASS), pcie]
        shown = console()
        since = {ResultKey("gpu.pcie", "gpu-3/GPU 5"): datetime(2026, 11, 18, 12, tzinfo=UTC)}
        found = findings(results, since)
        verdict = health_view(
            shown,
            "acme",
            results,
            found,
            hosts=6,
            seconds=1.8,
            commands=("appliance explain gpu.pcie",),
        )
        first = text(shown).splitlines()[0]
        assert verdict is Verdict.FAILED
        assert first.endswith("FAILED")
        assert "✗ FAILED  gpu-3 GPU 5  gpu.pcie  since 2026-11-18" in text(shown)
        assert "fix: reseat" in text(shown)
        assert "1 passed · 1 failed" in text(shown)
        assert "appliance explain gpu.pcie" in text(shown)

    @pytest.mark.parametrize(
        ("results", "said"),
        [
            ([], "Nothing was judged: incomplete."),
            (
                [result("a.b", "h", Status.SKIP, cause="not asked")],
                "0 passed · 0 failed · 1 skipped",
            ),
        ],
    )
    def test_nothing_judged_is_never_a_pass(self, results: list[CheckResult], said: str) -> None:
        shown = console()
        verdict = health_view(shown, "acme", results, findings(results), hosts=1)
        assert verdict is Verdict.INCOMPLETE
        assert "INCOMPLETE" in text(shown).splitlines()[0]
        assert said in text(shown)

    @pytest.mark.parametrize("everything", [False, True])
    def test_optional_gaps_are_one_line_unless_all_is_wanted(self, everything: bool) -> None:
        gaps = [
            result(f"base.{name}", "h", Status.NOT_ASSESSED, cause="a container", required=False)
            for name in ("cpu", "numa")
        ]
        needed = result("base.clock", "h", Status.NOT_ASSESSED, cause="no offset")
        results = [*gaps, needed]
        shown = console(120)
        health_view(shown, "acme", results, findings(results), hosts=1, everything=everything)
        out = text(shown)
        assert "no offset" in out
        assert ("a container" in out) is everything
        folded = "2 optional values not assessed: base.cpu, base.numa (--all shows why)"
        assert (folded in out) is not everything
        assert "3 not assessed" in out
        assert out.index("base.clock") < out.index("base.cpu")

    def test_value_and_limit_are_told_unless_the_cause_did(self) -> None:
        shown = console()
        told = result("a.b", "h", Status.FAIL, value=11.2, limit=21, unit="GB/s", cause="slow")
        named = result("a.c", "h", Status.FAIL, value=7, limit=8, cause="7 of 8 answer")
        findings_list(shown, findings([told, named]))
        assert "slow · 11.2 GB/s (limit 21)" in text(shown)
        assert "limit 8" not in text(shown)

    def test_colour_is_only_added_for_terminals(self) -> None:
        plain, coloured = console(), console(force_terminal=True)
        for shown in (plain, coloured):
            findings_list(shown, findings([result("a.b", "h", Status.FAIL)]))
        assert "\x1b" not in text(plain)
        assert "\x1b" in text(coloured)


class TestSummary:
    def test_ready_is_said_with_what_it_rests_on(self, build: RecordBuilder) -> None:
        record = build(
            verb="deploy",
            verdict=Verdict.PASSED,
            simulated=("gpu",),
            results=(result("a.b", "h", Status.PASS),),
        )
        shown = console()
        run_summary(shown, record, "runs/x/report.html", "appliance lab shell head")
        assert (
            "Deployed. No host was asked (simulated: gpu) · 1 check passed, 0 failed"
            in " ".join(text(shown).split())
        )
        assert "report  runs/x/report.html" in text(shown)
        assert "next    appliance lab shell head" in text(shown)

    def test_a_failed_host_stands_with_cause_and_fix(self, sample: RunRecord) -> None:
        shown = console()
        run_summary(shown, sample)
        out = " ".join(text(shown).split())
        assert "✗ FAILED nas1 base no answer on port 22" in out
        assert "fix: check power and cable of nas1" in out
        assert "FAILED nas1" in out
        assert "FAILED gpu-3 GPU 5 gpu.pcie" in out
        assert max(map(cell_len, text(shown).splitlines())) <= 80

    def test_it_never_says_ready_without_results(self, build: RecordBuilder) -> None:
        shown = console()
        run_summary(shown, build(verb="deploy"))
        assert "Ready" not in text(shown)
        assert "INCOMPLETE." in text(shown)

    def test_the_gravest_host_decides_a_stages_sign(self, build: RecordBuilder) -> None:
        states = (StageState.DONE, StageState.BLOCKED, StageState.SKIPPED)
        outcomes = tuple(
            StageOutcome(stage="slurm", host=f"n{i}", state=s) for i, s in enumerate(states)
        )
        shown = console()
        run_summary(shown, build(outcomes=outcomes))
        assert text(shown).split()[:5] == ["#", "slurm", "2/3", "0:00", "blocked"]

    def test_a_failed_stage_and_its_result_are_told_once(self, sample: RunRecord) -> None:
        stage = result("stage.base", "nas1", Status.FAIL, cause="no answer on port 22")
        shown = console(120)
        run_summary(shown, sample.model_copy(update={"results": (*sample.results, stage)}))
        assert "stage.base" not in text(shown)
        assert text(shown).count("no answer on port 22") == 1

    def test_required_gaps_are_listed_and_optional_ones_are_one_line(
        self, build: RecordBuilder
    ) -> None:
        unknown = Status.NOT_ASSESSED
        optional = [
            result(f"base.o{i}", "a", unknown, cause="idle", required=False) for i in range(9)
        ]
        required = [
            result("base.clock", h, unknown, cause="no offset", fix="wait") for h in ("a", "b")
        ]
        shown = console(200)
        run_summary(shown, build(results=(*optional, *required)))
        lines = [line.strip() for line in text(shown).splitlines()]
        assert "not assessed: base.clock a, b: no offset (fix: wait)" in lines
        (folded,) = [line for line in lines if "optional" in line]
        assert folded.startswith("9 optional values not assessed: base.o0, ")
        assert folded.endswith("and 3 more checks; see the report")

    def test_many_required_gaps_do_not_fill_the_screen(self, build: RecordBuilder) -> None:
        gaps = tuple(result(f"x.y{i}", "a", Status.NOT_ASSESSED, cause="?") for i in range(9))
        shown = console(200)
        run_summary(shown, build(results=gaps))
        assert text(shown).count("not assessed: x.y") == 6
        assert "not assessed: 3 more, see the report" in text(shown)

    def test_narrowed_run_is_good_as_far_as_it_went(self, build: RecordBuilder) -> None:
        record = build(
            verb="deploy",
            verdict=Verdict.PASSED,
            results=(result("base.os", "a", Status.PASS),),
            narrowed="--stage base",
            left_out=("not judged, because of --stage base: stages slurm",),
        )
        shown = console(200)
        run_summary(shown, record)
        assert "The selected part passed." in text(shown)
        assert "Ready" not in text(shown)
        assert "not judged, because of --stage base: stages slurm" in text(shown)

    def test_host_that_went_away_is_told_once(self, build: RecordBuilder) -> None:
        gone = {"host": "gpu-1", "cause": "no answer", "fix": "power it on", "away": True}
        states = {"fabric": StageState.FAILED, "storage": StageState.FAILED}
        outcomes = [
            StageOutcome.model_validate({"stage": s, "state": v, **gone}) for s, v in states.items()
        ]
        outcomes += [
            StageOutcome(stage=s, host="gpu-1", state=StageState.NOT_RUN, why="gpu-1 went away")
            for s in ("slurm", "observe")
        ]
        silent = result("host.reachable", "gpu-1", Status.FAIL, cause="no answer", fix="power")
        shown = console(200)
        run_summary(shown, build(outcomes=tuple(outcomes), results=(silent,)), stages=False)
        out = text(shown)
        assert out.count("no answer") == 1
        assert "FAILED  gpu-1  fabric, storage  no answer" in out
        assert "not run there after that: slurm, observe" in out


def test_no_finding_is_looked_for_among_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 optional gaps of 1,000 hosts were 5.5 million comparisons: six seconds."""
    gap = {"status": Status.NOT_ASSESSED, "required": False, "cause": "none here"}
    results = [CheckResult(id="base.numa", target=f"gpu-{n}", **gap) for n in range(9)]
    bad = CheckResult(id="base.disk", target="gpu-1", status=Status.FAIL, cause="full", fix="clear")
    found = findings([bad, *results])

    def refuse(self: Finding, other: object) -> bool:
        raise AssertionError("compared")

    monkeypatch.setattr(Finding, "__eq__", refuse)
    out = io.StringIO()
    health_view(Console(file=out, width=100), "acme", results, found, hosts=9)
    assert "9 optional values not assessed: base.numa" in out.getvalue()


def test_three_causes_on_three_hosts_fit_twenty_lines() -> None:
    """As a rack tells a full disk, another munge key and a GPU off its bus; with the longest line of gaps there is."""
    fail = Status.FAIL
    results = [
        result(
            "base.disk",
            "head//",
            fail,
            cause="/ has 0 % free (0 MiB), and so have /data, /export, /srv: one file system",
            fix="free space on head: du -xh -d2 / | sort -h shows the largest directories",
        ),
        result("storage.export", "head", fail, explained_by="base.disk head//"),
        result(
            "slurm.munge",
            "gpu-1",
            fail,
            cause="its munge key is not the site's: no other host accepts what it signs",
            fix="appliance deploy --site mysite --stage slurm --hosts gpu-1, which restores the site's key",
        ),
        result("base.drift", "gpu-1", fail, explained_by="slurm.munge gpu-1"),
        result(
            "gpu.count",
            "gpu-2",
            fail,
            cause="7 GPUs are on the PCI bus, the class has 8; none at 0000:4e:00.0, where the other hosts have one",
            fix="power the host off and on; if it is still missing, power off again, and reseat it and its power cable (lspci -d 10de: lists "
            "the present ones); if it was never installed, set hosts[].gpus in site.yml",
        ),
        result("gpu.xid", "gpu-2", fail, explained_by="gpu.count gpu-2"),
    ]
    gaps = ("base.weekly", "base.memory_size", "storage.scratch_size", "fabric.cabling")
    results += [
        result(f"{gap}{n}", "head", Status.NOT_ASSESSED, required=False)
        for gap in gaps
        for n in (1, 2)
    ]
    shown = console(120)
    commands = ("appliance explain CHECK", "appliance plan --site mysite")
    health_view(shown, "acme", results, findings(results), hosts=3, seconds=1.4, commands=commands)
    lines = text(shown).splitlines()
    assert len(["Simulated here: fabric, gpu.", *lines]) <= 20, "\n".join(lines)
    assert "gpu-1  slurm.munge  explains 1 more: base.drift" in "\n".join(lines)
