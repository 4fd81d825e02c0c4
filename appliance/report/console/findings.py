"""Prints what is wrong with an appliance: the cause and the remedy."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from appliance.models.result import CheckResult, Status, Verdict, overall
from appliance.models.waiver import Waiver
from appliance.report.findings import Finding, gaps_line, is_optional_gap
from appliance.report.formatting import fold, measured, moment, number, one_line, waiver_words
from appliance.report.merged_hosts import of_hosts, without_host
from appliance.report.symbols import STATUS, VERDICT, amount
from appliance.text import plural


def health_view(
    console: Console,
    site: str,
    results: Sequence[CheckResult],
    found: Sequence[Finding],
    *,
    hosts: int,
    seconds: float | None = None,
    handed_over: date | None = None,
    commands: Sequence[str] = (),
    everything: bool = False,
    waivers: Sequence[Waiver] = (),
    verdict: Verdict | None = None,
) -> Verdict:
    """Print the state of a site, failures first, and return its verdict.

    Missing optional values are one line, unless ``everything`` is set. ``waivers`` do not change the verdict.
    ``verdict``: overrides the verdict of the results.
    """
    verdict = verdict or overall(results)
    console.print(_head(site, verdict, hosts, seconds, handed_over))
    console.print()
    shown = [f for f in found if everything or not is_optional_gap(f.result)]
    findings_list(console, shown)
    if gaps := "" if everything else gaps_line(f.result for f in found):
        sign = STATUS[Status.NOT_ASSESSED]
        mark = sign.glyph(console.options.ascii_only)
        line = Text.assemble((mark, sign.style), f" {gaps} (--all shows why)")
        console.print(Padding(line, (0, 0, 0, 2), expand=False))
    for waiver in waivers:
        console.print(Padding(Text(waiver_words(waiver), "bold red"), (0, 0, 0, 2), expand=False))
    console.print(f"  {counts(results)}", markup=False, highlight=False)
    if commands:
        console.print(Padding(Text("   ·   ".join(commands), "dim"), (0, 0, 0, 2), expand=False))
    return verdict


def findings_list(console: Console, found: Sequence[Finding]) -> None:
    """Print findings in their order, similar ones in one block; a blank line follows."""
    for block in alike(found):
        _print_finding(console, block)
    if found:
        console.print()


def _head(
    site: str, verdict: Verdict, hosts: int, seconds: float | None, handed_over: date | None
) -> Text:
    sign = VERDICT[verdict]
    took = "" if seconds is None else f" in {seconds:.1f} s"
    parts = [plural(hosts, "host") + took]
    parts += [f"handed over {handed_over.isoformat()}"] if handed_over else []
    return Text.assemble((site, "bold"), " · ", " · ".join(parts), "   ", (sign.word, sign.style))


def alike(found: Sequence[Finding]) -> list[list[Finding]]:
    """Group findings that differ only in their host."""
    blocks: dict[tuple[object, ...], list[Finding]] = {}
    for finding in found:
        r = finding.result
        part = r.target.partition("/")[2]
        said = (without_host(r.cause, r.host), without_host(r.fix, r.host))
        same = (r.status, r.id, part, r.value, *said, finding.since)
        blocks.setdefault(same, []).append(finding)
    return list(blocks.values())


def _print_finding(console: Console, block: Sequence[Finding]) -> None:
    result = block[0].result
    sign = STATUS[result.status]
    mark = sign.glyph(console.options.ascii_only)
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    head = Text.assemble(
        (sign.word, sign.style), "  ", (targets_of(block), "bold"), f"  {result.id}"
    )
    if block[0].since:
        head.append(f"  since {moment(block[0].since)}", "dim")
    follows = Finding(result, explains=tuple(r for f in block for r in f.explains))
    if follows.more:
        head.append(f"  {follows.more}", "dim")
    table.add_row(Text(mark, sign.style), head)
    for line in _body(block):
        table.add_row("", line)
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def targets_of(block: Sequence[Finding]) -> str:
    """Return the hosts of a block, folded, with the part that they share."""
    hosts = fold(dict.fromkeys(f.result.target.partition("/")[0] for f in block))
    part = block[0].result.target.partition("/")[2]
    return f"{hosts} {part}".strip()


def _body(block: Sequence[Finding]) -> Iterable[Text]:
    result = block[0].result
    hosts = [h for f in block if (h := f.result.host)]
    cause = of_hosts(one_line(result.cause), result.host, hosts)
    said = [part for part in (cause, _bounds(result)) if part]
    if said:
        yield Text(" · ".join(said))
    if result.fix:
        yield Text.assemble(("fix: ", "bold"), of_hosts(result.fix, result.host, hosts))


def _bounds(result: CheckResult) -> str:
    """Return value and limit, unless the cause names both already."""
    value, limit = number(result.value), number(result.limit)
    if not value or (value in result.cause and limit in result.cause):
        return ""
    return measured(result.value, result.unit) + (f" (limit {limit})" if limit else "")


def counts(results: Sequence[CheckResult]) -> str:
    """Return the number of results of each status, and how many of them others explain."""
    shown = dict.fromkeys((Status.PASS, *[s for s in Status if s is not Status.PASS]), 0)
    for result in results:
        shown[result.status] += 1
    if not results:
        return "Nothing was judged: incomplete."
    always = {Status.PASS, Status.FAIL}
    explained = Counter(result.status for result in results if result.explained_by)
    return " · ".join(
        amount(s, n) + (f" ({explained[s]} explained)" if explained[s] else "")
        for s, n in shown.items()
        if n or s in always
    )
