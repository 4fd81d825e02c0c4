"""Page 2: what is wrong, each cause above its consequences, with remedy and evidence."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from appliance.console.page import Look, Page, Row, failure_lines, labelled
from appliance.console.state import State
from appliance.models.result import CheckResult, Status
from appliance.report.console.findings import alike, counts, targets_of
from appliance.report.findings import Finding, findings, is_optional_gap
from appliance.report.formatting import measured, moment, number, one_line, waiver_words
from appliance.report.merged_hosts import of_hosts
from appliance.report.symbols import STATUS
from appliance.text import plural

Block = Sequence[Finding]
"""Findings that differ only in their host."""


def findings_page(state: State) -> Page:
    """The findings of the last look."""
    head = failure_lines(state.look.failure)
    if state.look.value is None:
        return Page("Findings", tuple(head), empty=f"hosts {state.look.age(state.time)}")
    seen = state.look.value.health
    found = findings(seen.results, seen.since)
    head.append(Text(counts(seen.results)))
    if gaps := sum(is_optional_gap(f.result) for f in found):
        said = f" {plural(gaps, 'optional value')} not assessed: appliance health --all"
        head.append(Text.assemble(state.terminal.mark(STATUS[Status.NOT_ASSESSED]), said))
    head += [Text(waiver_words(waiver), "bold red") for waiver in seen.waivers]
    shown = [f for f in found if not is_optional_gap(f.result)]
    rows = tuple(row for block in alike(shown) for row in _rows(state.terminal, block))
    legend = state.terminal.legend(STATUS.values())
    return Page("Findings", tuple(head), rows, "no findings", legend)


def _rows(look: Look, block: Block) -> Iterator[Row]:
    """The cause, then its consequences, each below what explains it."""
    yield _row(look, block, 0)
    children: dict[str, list[CheckResult]] = {}
    for result in (r for finding in block for r in finding.explains):
        children.setdefault(result.explained_by, []).append(result)
    for depth, group in _tree([f.result for f in block], children, 1):
        yield _row(look, group, depth)


def _tree(
    parents: Sequence[CheckResult], children: dict[str, list[CheckResult]], depth: int
) -> Iterator[tuple[int, Block]]:
    """Depth and block of each consequence; each name is visited once, so that a circle ends.

    Checks that say the same of the same place, and explain nothing, share a block.
    """
    kids = [kid for parent in parents for kid in children.pop(parent.name, ())]
    alone: dict[tuple[object, ...], list[Finding]] = {}
    for group in alike([Finding(kid) for kid in kids]):
        said = group[0].result
        key: tuple[object, ...] = (said.status, targets_of(group), said.cause)
        if any(f.result.name in children for f in group) or not said.cause:
            key = (id(group),)
        alone.setdefault(key, []).extend(group)
    for block in alone.values():
        yield depth, block
        yield from _tree([f.result for f in block], children, depth + 1)


def _row(look: Look, block: Block, depth: int) -> Row:
    result = block[0].result
    branch = "   " * (depth - 1) + ("+- " if look.ascii_only else "└─ ") if depth else ""
    line = Text.assemble(
        (branch, "dim"),
        look.mark(STATUS[result.status]),
        (f" {targets_of(block)}", "bold"),
        f"  {_ids(block, 1)}  ",
        _cause(block) or measured(result.value, result.unit),
    )
    key = f"{depth} {result.name}"
    return Row(key, line, tuple(_detail(block)), check=result.id)


def _ids(block: Block, most: int = 99) -> str:
    """The checks of a block: "gpu.model and 9 more"."""
    ids = list(dict.fromkeys(f.result.id for f in block))
    return ", ".join(ids[:most]) + (f" and {len(ids) - most} more" if len(ids) > most else "")


def _cause(block: Block) -> str:
    result = block[0].result
    return of_hosts(one_line(result.cause), result.host, [f.result.host or "" for f in block])


def _detail(block: Block) -> Iterator[Text]:
    """Cause, remedy, value against its limit, evidence and start."""
    result, sign = block[0].result, STATUS[block[0].result.status]
    yield Text.assemble((sign.word, sign.style), f"  {targets_of(block)}  {_ids(block)}")
    if cause := _cause(block):
        yield labelled("cause", cause)
    if result.explained_by:
        yield labelled("explained by", result.explained_by)
    if result.fix:
        hosts = [f.result.host or "" for f in block]
        yield labelled("fix", of_hosts(result.fix, result.host, hosts))
    if value := measured(result.value, result.unit):
        limit = f" (limit {number(result.limit)})" if result.limit is not None else ""
        source = f", {result.limit_source}" if result.limit_source else ""
        yield labelled("measured", f"{value}{limit}{source}")
    if result.evidence:
        yield labelled("evidence", result.evidence)
    if block[0].since:
        yield labelled("since", moment(block[0].since))
    if not result.required:
        yield labelled("optional", "this check does not decide the verdict")
    if result.simulated:
        yield labelled("simulated", "the hardware of this check is simulated")
