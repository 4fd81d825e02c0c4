"""Options and output of work on hosts in waves."""

from collections.abc import Sequence

import click

from appliance.actions.hosts.waves import Worked
from appliance.models.site import Host

WAIT = click.option(
    "--wait",
    "minutes",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    help="Minutes to wait for jobs, and for pods that run to completion.",
)
EVICT = click.option("--evict", is_flag=True, help="After that, kill what still runs there.")
YES = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")


def order_lines(plan: Sequence[Sequence[Host]]) -> list[str]:
    """One line for each wave."""
    return [
        f"  {number}. {', '.join(host.name for host in wave)}"
        for number, wave in enumerate(plan, 1)
    ]


def result_lines(done: Sequence[Worked], rest: Sequence[str], good: str, left: str) -> list[str]:
    """What became of each host. ``good``: as "has rebooted"; ``left``: the participle for those not reached."""
    lines = []
    for one in done:
        if one.is_good:
            lines.append(f"  ✓ {one.host} {good}")
            continue
        if one.error:
            lines.append(f"  ✗ {one.host}: {one.error.message}")
            lines += [f"      fix: {one.error.hint}"] if one.error.hint else []
        for bad in one.failures:
            lines.append(f"  ✗ {bad.name}: {bad.cause}")
            lines += [f"      fix: {bad.fix}"] if bad.fix else []
    if rest:
        lines.append(f"  not {left}: {', '.join(rest)}")
    return lines
