"""Results as JUnit XML for CI systems: one test case for each check on each host.

JUnit has no warning and no "unknown": a warning passes and has its text in ``system-out``; what was not assessed is skipped.
Format: the schema of Jenkins, https://github.com/jenkinsci/xunit-plugin (junit-10.xsd)
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as XML

from appliance.models.plan import Action, HostStage, Plan
from appliance.models.result import CLUSTER, SEVERITY, CheckResult, Status, Verdict
from appliance.report.formatting import measured, number

SITE = "(site)"
"""Stands for a host in the test case of the verdict; no host has this name."""
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot contain, not even escaped (section 2.2)."""
_OUTCOMES = {
    Status.FAIL: "failure",
    Status.ERROR: "error",
    Status.SKIP: "skipped",
    Status.NOT_ASSESSED: "skipped",
    Status.WARN: "system-out",
}
_OF_ACTIONS = {
    Action.RUN: "failure",
    Action.REPAIR: "failure",
    Action.BLOCKED: "failure",
    Action.UNKNOWN: "error",
}
_OF_VERDICTS = {Verdict.FAILED: "failure", Verdict.INCOMPLETE: "error"}


@dataclass(frozen=True)
class _Case:
    """One test case. ``outcome``: the element that it contains, "" for a pass; ``kind``: the type of a failure."""

    host: str
    name: str
    outcome: str = ""
    kind: str = ""
    message: str = ""
    text: str = ""


def render_health(
    site: str, results: Sequence[CheckResult], verdict: Verdict, simulated: Iterable[str] = ()
) -> str:
    """Return the document of the site's results. Its first test case is the verdict, which is an error if incomplete."""
    first = _Case(
        SITE,
        "verdict",
        _OF_VERDICTS.get(verdict, ""),
        verdict.value,
        f"the site is {verdict.value}",
    )
    properties = {"verdict": verdict.value, "simulated": " ".join(simulated)}
    return _document(site, [first, *_checks(results)], properties)


def render_plan(plan: Plan) -> str:
    """Return the document of a plan: a stage that would change a host, or is blocked, is a failure."""
    cells = [c for c in plan.cells if c.action is not Action.NOT_CONCERNED]
    return _document(plan.site, [*map(_of_cell, cells), *_checks(plan.results)], {})


def _of_cell(cell: HostStage) -> _Case:
    outcome = _OF_ACTIONS.get(cell.action, "")
    return _Case(
        cell.host,
        f"stage {cell.stage}",
        outcome,
        cell.action.value,
        cell.why or cell.action.value,
        "\n".join(cell.differences),
    )


def _checks(results: Iterable[CheckResult]) -> Iterator[_Case]:
    """One case for each check and host, with the worst of its results and the text of all that did not pass."""
    found: dict[tuple[str, str], list[CheckResult]] = {}
    for result in results:
        found.setdefault((result.host or CLUSTER, result.id), []).append(result)
    for (host, check), same in found.items():
        worst = max(same, key=lambda r: SEVERITY.index(r.status))
        yield _Case(
            host,
            check,
            _OUTCOMES.get(worst.status, ""),
            worst.status.value,
            worst.cause or worst.status.value,
            "\n".join(_description(r) for r in same if r.status is not Status.PASS),
        )


def _description(result: CheckResult) -> str:
    words = [f"{result.status.value}: {result.place}:"]
    if result.value is not None:
        words.append(measured(result.value, result.unit))
    if result.limit is not None:
        words.append(f"(limit {number(result.limit)})")
    words += [result.cause] if result.cause else []
    words += [f"(explained by {result.explained_by})"] if result.explained_by else []
    words += ["(simulated)"] if result.simulated else []
    return " ".join(words) + (f"\n  fix: {result.fix}" if result.fix else "")


def _document(site: str, cases: Sequence[_Case], properties: Mapping[str, str]) -> str:
    root = XML.Element("testsuites", {"name": _clean(site), **_counts(cases, suite=False)})
    for host in dict.fromkeys(case.host for case in cases):
        own = [case for case in cases if case.host == host]
        suite = XML.SubElement(root, "testsuite", {"name": _clean(host), **_counts(own)})
        if host == SITE:
            listed = XML.SubElement(suite, "properties")
            for name, value in properties.items():
                XML.SubElement(listed, "property", {"name": name, "value": _clean(value)})
        for case in own:
            _append(suite, site, case)
    XML.indent(root, " ")
    text: bytes = XML.tostring(root, encoding="us-ascii", xml_declaration=True)
    return text.decode("ascii") + "\n"


def _counts(cases: Sequence[_Case], *, suite: bool = True) -> dict[str, str]:
    counted = {"tests": str(len(cases))}
    kinds = {"failures": "failure", "errors": "error"} | ({"skipped": "skipped"} if suite else {})
    for name, outcome in kinds.items():
        counted[name] = str(sum(case.outcome == outcome for case in cases))
    return counted


def _append(suite: XML.Element, site: str, case: _Case) -> None:
    names = {"classname": _clean(f"{site}.{case.host}"), "name": _clean(case.name)}
    element = XML.SubElement(suite, "testcase", names)
    if not case.outcome:
        return
    told = XML.SubElement(element, case.outcome)
    if case.outcome != "system-out":
        told.set("message", _clean(case.message))
    if case.outcome in {"failure", "error"}:
        told.set("type", case.kind)
    told.text = _clean(case.text or case.message)


def _clean(text: str) -> str:
    """The text, with what XML cannot contain as an escape sequence: "\\x1b"."""
    return _ILLEGAL.sub(
        lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text
    )
