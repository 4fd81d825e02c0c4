"""No sentence decides: every text is another one, and verdicts, groups, plans and exit codes stay; no code asks a text."""

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.checks.causes import Cause, Reach
from appliance.config import data
from appliance.engine.look import judge
from appliance.engine.look.gather import Round
from appliance.engine.look.judge import judge_all
from appliance.engine.look.probe_requests import ALL_CHECK_IDS
from appliance.engine.look.run_record import Findings, record_of
from appliance.engine.look.survey import view_of
from appliance.models import result
from appliance.models.result import CheckResult, Status
from appliance.models.run import StageOutcome, StageState
from appliance.report import nagios
from appliance.report.findings import findings
from tests.golden.faults import FAULTS, planted
from tests.golden.record import SITES, Made, Site, at_work, planned

TEXTS = ("cause", "fix", "evidence", "limit_source")
HANGS_ON_DATA = {
    *("base.clock_spread", "base.failed_units", "gpu.driver_spread", "gpu.vbios_spread"),
    *("fabric.topology", "kubernetes.topology", "observe.alerts", "slurm.nodes", "slurm.gres"),
}
"""Checks whose results are put under another by more than where they are."""


def other(text: str) -> str:
    """Another text for each, and none for none."""
    return hashlib.sha256(text.encode()).hexdigest()[:12] if text else ""


def reworded(check_id: str, status: Status, **told: Any) -> CheckResult:
    """The result a check makes, in other words."""
    texts = {name: other(str(told[name])) for name in TEXTS if name in told}
    return CheckResult(id=check_id, target="", host=None, status=status, **(told | texts))


def retold(found: Round) -> Round:
    """The same answers, whatever the hosts say of what they could not read or why they are silent."""
    facts = {
        name: own.model_copy(
            update={
                "errors": {area: other(text) for area, text in own.errors.items()},
                "problems": tuple(
                    p.model_copy(update={"text": other(p.text)}) for p in own.problems
                ),
            }
        )
        for name, own in found.facts.items()
    }
    silent = {
        name: type(u)(u.host, other(u.cause), other(u.fix), u.away)
        for name, u in found.unanswered.items()
    }
    return Round(facts, silent)


def bones(results: tuple[CheckResult, ...] | list[CheckResult]) -> list[dict[str, Any]]:
    """All of results; of their texts, whether there are any."""
    return [r.model_dump() | {name: bool(getattr(r, name)) for name in TEXTS} for r in results]


def outcomes(hosts: list[str], say: Any) -> list[StageOutcome]:
    """A stage that failed on a host, was kept from the next and not run on the others."""
    states = (StageState.FAILED, StageState.BLOCKED, StageState.NOT_RUN)
    return [
        StageOutcome(stage="slurm", host=h, state=s, cause=say("it broke"), why=say("not yet"))
        for h, s in zip(hosts, states, strict=False)
    ]


def decided(site: Site, found: Round, say: Any) -> dict[str, Any]:
    """What the program decides of these answers."""
    made = Made(site.settled.session, found)
    session = made.session
    results = judge_all(view_of(session, found), found, ALL_CHECK_IDS)
    hosts = [host.name for host in session.site.hosts]
    record = record_of(session, found, Findings(outcomes=outcomes(hosts, say), results=results))
    plan = planned(made, site.prepared)
    return {
        "results": bones(results),
        "groups": [(f.result.name, [r.name for r in f.explains]) for f in findings(results)],
        "record": (record.verdict, record.verdict.exit_code, bones(record.results)),
        "plan": [c.model_dump(exclude={"why", "note"}) for c in plan.cells],
        "beside the plan": bones(plan.results),
        "nagios": nagios.render("acme", results)[1],
        "gaps": len(record.not_assessed),
    }


def both(site: Site, found: Round, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """As it is said, and in other words."""
    yield decided(site, found, str)
    with monkeypatch.context() as patched:
        # In place of what keeps the words before.
        patched.setattr(result, "_without_place", reworded)
        yield decided(site, retold(found), other)


@pytest.mark.parametrize("name", SITES)
def test_what_is_decided_of_a_site_does_not_hang_on_words(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explained: set[str] = set()
    with at_work(name, tmp_path) as site:
        hosts = {None, *(host.name for host in site.settled.session.site.hosts)}
        for fault in FAULTS:
            found = planted(site.settled.session.site, site.settled.found, fault)
            said, again = both(site, found, monkeypatch)
            assert said == again, fault.__name__
            assert {r["host"] for r in said["results"]} <= hosts
            explained |= {r["id"] for r in said["results"] if r["explained_by"]}
    if name == "infiniband":
        assert explained >= HANGS_ON_DATA


def test_a_cause_that_is_read_would_be_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Cause(
        "base.clock",
        "it says so",
        Reach.SITE,
        lambda cause, effect: " apart" in effect.cause,
    )
    monkeypatch.setattr(judge, "CAUSES", {"base.clock_spread": (reads,)})
    with at_work("hpc", tmp_path) as site:
        said, again = both(site, site.settled.found, monkeypatch)
    assert said["groups"] != again["groups"]
    assert said["results"] != again["results"]


ASKING = frozenset(
    {
        *("startswith", "endswith", "removeprefix", "removesuffix", "find", "index", "count"),
        *("split", "rsplit", "partition", "rpartition", "search", "match", "fullmatch", "findall"),
        *("finditer", "sub", "fnmatch", "fnmatchcase"),
    }
)
SHORTENS = {"appliance/report/console/findings.py"}
"""Says a value and its limit only where the cause does not name them."""


def asked(source: str) -> list[int]:
    """Lines in which a text of a result is searched, cut up or compared."""
    nodes = (n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.expr))
    return sorted({node.lineno for node in nodes if _asks(node)})


def _asks(node: ast.expr) -> bool:
    if isinstance(node, ast.Compare):
        # That two texts are one and the same is no question to what they say.
        words = any(isinstance(n, ast.Constant) and n.value for n in [node.left, *node.comparators])
        inside = any(isinstance(op, ast.In | ast.NotIn) for op in node.ops)
        return (inside or words) and any(map(_is_text, [node.left, *node.comparators]))
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    of = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    return name in ASKING and any(map(_is_text, [*of, *node.args]))


def _is_text(node: ast.expr) -> bool:
    """``result.cause``, also behind ``.lower()``, ``or ""`` and the like."""
    if isinstance(node, ast.Attribute):
        return node.attr in TEXTS or _is_text(node.value)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and _is_text(node.func.value)
    if isinstance(node, ast.BoolOp):
        return any(map(_is_text, node.values))
    return isinstance(node, ast.Subscript) and _is_text(node.value)


def modules() -> dict[str, str]:
    """The program's sources by their path."""
    found = sorted((data.root() / "appliance").rglob("*.py"))
    return {str(p.relative_to(data.root())): p.read_text(encoding="utf-8") for p in found}


def test_no_code_asks_what_a_text_says() -> None:
    found = {path: lines for path, source in modules().items() if (lines := asked(source))}
    assert found.keys() == SHORTENS, found


@pytest.mark.parametrize(
    "code",
    [
        'r.cause.startswith("failed: ")',
        '(r.cause or "").lower().endswith("x")',
        '"gpu-1" in r.cause',
        'target in effect.cause and "/" in r.evidence',
        're.search("needs root", r.cause)',
        "DENIED.search(result.cause)",
        'r.fix == "again"',
        "r.cause in known",
        'r.limit_source.partition(" ")[0]',
        'fnmatchcase(r.cause, "x*")',
        'r.cause[:3] == "not"',
    ],
)
def test_code_that_asks_is_met(code: str) -> None:
    assert asked(code) == [1]


@pytest.mark.parametrize(
    "code",
    [
        "groups.setdefault((r.id, r.cause), []).append(r)",
        "one_line(r.cause) or r.fix",
        "r.cause == other.cause",
        'value in r.names and r.kind == "denied"',
        'Diagnosis(f"{bad.id}: {bad.cause}", bad.fix) if bad.fix else None',
    ],
)
def test_code_that_shows_and_groups_is_let_be(code: str) -> None:
    assert asked(code) == []


MAKERS = frozenset({"judged", "passed", "failed", "warned", "not_assessed"})


def joined(source: str) -> list[int]:
    """Lines in which what a result speaks of is a text put together."""
    calls = (n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call))
    return [
        call.lineno
        for call in calls
        if getattr(call.func, "id", "") in MAKERS
        and call.args
        and isinstance(call.args[0], ast.JoinedStr)
    ]


def test_what_a_result_speaks_of_is_never_a_text_put_together() -> None:
    assert joined('failed(f"{host}/GPU {n}", "x", "y")') == [1]
    assert [path for path, source in modules().items() if joined(source)] == []
