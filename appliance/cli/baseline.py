"""appliance baseline"""

from pathlib import Path

import click

from appliance.actions.monitoring import posture_baseline as action
from appliance.cli import options
from appliance.report.formatting import fold, moment


@click.group()
def baseline() -> None:
    """Show or accept the recorded state of the hosts.

    The baseline covers what no stage owns: accounts, keys, sudoers files, package sources, packages, cron jobs, units,
    listening sockets, third-party kernel modules, setuid files and file capabilities. Each stage's own checks cover the rest.
    """


@baseline.command()
@options.target_options
def show(inventory: Path | None, profile: str | None) -> int:
    """Show the baseline. When it was accepted, by whom, why, and how many items of each kind it holds."""
    return _print_baseline(action.show(options.target(inventory, profile), options.quiet()))


@baseline.command()
@options.target_options
@click.option("--reason", metavar="TEXT", required=True, help="Why the current state is correct.")
def accept(inventory: Path | None, profile: str | None, reason: str) -> int:
    """Accept the current state of the hosts as the baseline. Later differences are shown by health --since baseline.

    Changes no host. Exit: 0 done, 2 unusable input, 3 a host did not answer and keeps its earlier baseline.
    """
    return _print_baseline(
        action.accept(options.target(inventory, profile), reason, options.quiet())
    )


def _print_baseline(shown: action.BaselineSummary) -> int:
    options.echo(f"{shown.site}, accepted {moment(shown.time)} by {shown.said}")
    alike: dict[str, list[str]] = {}
    for host, kinds in shown.kinds.items():
        words = ", ".join(_many(kind, count) for kind, count in sorted(kinds.items()) if count)
        alike.setdefault(words or "nothing was recorded", []).append(host)
    for words, hosts in alike.items():
        options.echo(f"  {fold(hosts)}: {words}")
    for host, why in shown.silent.items():
        options.echo(f"  {host} was not recorded: {why}")
    return 3 if shown.silent else 0


def _many(kind: str, count: int) -> str:
    several = kind[:-1] + "ies" if kind.endswith("capability") else kind + "s"
    return f"{count} {kind if count == 1 else several}"
