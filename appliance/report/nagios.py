"""Results for Nagios and compatible systems: one status line with performance data, then the details.

Format and codes: Monitoring Plugins Development Guidelines,
https://www.monitoring-plugins.org/doc/guidelines.html
"""

from collections.abc import Sequence

from appliance.models.result import CheckResult, Status, Verdict, overall
from appliance.report.findings import Finding, findings
from appliance.report.formatting import measured, number
from appliance.report.monitoring_plugin import Code, bare
from appliance.report.symbols import STATUS

_LISTED = 3


def code(results: Sequence[CheckResult]) -> Code:
    """Return critical if anything failed, unknown if required checks have no verdict, else by warnings."""
    verdict = overall(results)
    if verdict is Verdict.FAILED:
        return Code.CRITICAL
    if verdict is Verdict.INCOMPLETE:
        return Code.UNKNOWN
    return Code.WARNING if any(r.status is Status.WARN for r in results) else Code.OK


def render(site: str, results: Sequence[CheckResult]) -> tuple[str, Code]:
    """Return the plugin's output and its exit code."""
    told = findings(results)
    found = [finding.result for finding in told]
    head = f"APPLIANCE {code(results).name} - {bare(site)}: {_status_text(results, found)}"
    details = [_detail(finding) for finding in told]
    return "\n".join([f"{head} | {_counts(results)}", *details]) + "\n", code(results)


def _status_text(results: Sequence[CheckResult], found: Sequence[CheckResult]) -> str:
    if not results:
        return "nothing was judged"
    passed = sum(1 for r in results if r.status is Status.PASS)
    weighty = [r for r in found if r.required or r.status in {Status.FAIL, Status.ERROR}]
    named = [f"{bare(r.id)} {STATUS[r.status].word} on {bare(r.place)}" for r in weighty[:_LISTED]]
    more = [f"{len(weighty) - _LISTED} more"] if len(weighty) > _LISTED else []
    return ", ".join([*named, *more, f"{passed} passed"])


def _counts(results: Sequence[CheckResult]) -> str:
    counts = {s: sum(1 for r in results if r.status is s) for s in Status}
    return " ".join(
        f"{status.value}={count};;;0;{len(results)}" for status, count in counts.items()
    )


def _detail(finding: Finding) -> str:
    result = finding.result
    words = [f"{STATUS[result.status].word} {result.id} {result.place}:"]
    if result.value is not None:
        words.append(measured(result.value, result.unit))
    if result.limit is not None:
        words.append(f"(limit {number(result.limit)})")
    words += [result.cause] if result.cause else []
    words += [f"fix: {result.fix}"] if result.fix else []
    words += [f"({finding.more})"] if finding.more else []
    return bare(" ".join(words))
