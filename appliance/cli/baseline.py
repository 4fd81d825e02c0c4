"""appliance baseline"""

from pathlib import Path

import click

from appliance.actions import baseline as action
from appliance.cli import options
from appliance.report.wording import fold, moment


@click.group()
def baseline() -> None:
    """The hosts as they were taken over.

    What stages own is judged by their own checks. Beside it there are accounts, keys, sudoers files, package sources,
    packages, cron, units, listening sockets, kernel modules of others, setuid files and file capabilities.
    """


@baseline.command()
@options.target_options
def show(inventory: Path | None, profile: str | None) -> int:
    """Show what the hosts were taken as. When, by whom, why, and how much of each kind."""
    return _told(action.show(options.target(inventory, profile), options.quiet()))


@baseline.command()
@options.target_options
@click.option("--reason", metavar="TEXT", required=True, help="Why they are right as they are.")
def accept(inventory: Path | None, profile: str | None, reason: str) -> int:
    """Take the hosts as they are now. What differs from now on is told by health --since handover.

    Changes no host. Exit: 0 done, 2 unusable input, 3 a host did not answer and stays as it was taken before.
    """
    return _told(action.accept(options.target(inventory, profile), reason, options.quiet()))


def _told(shown: action.Shown) -> int:
    options.echo(f"{shown.site}, taken {moment(shown.time)} by {shown.said}")
    alike: dict[str, list[str]] = {}
    for host, kinds in shown.kinds.items():
        words = ", ".join(_many(kind, count) for kind, count in sorted(kinds.items()) if count)
        alike.setdefault(words or "nothing was kept", []).append(host)
    for words, hosts in alike.items():
        options.echo(f"  {fold(hosts)}: {words}")
    for host, why in shown.silent.items():
        options.echo(f"  {host} was not taken: {why}")
    return 3 if shown.silent else 0


def _many(kind: str, count: int) -> str:
    several = kind[:-1] + "ies" if kind.endswith("capability") else kind + "s"
    return f"{count} {kind if count == 1 else several}"
