"""appliance history"""

from pathlib import Path

import click

from appliance.actions.sites import history as action
from appliance.actions.sites.opening import runs_of
from appliance.cli import options
from appliance.report import documents
from appliance.report.formatting import duration, fold
from appliance.text import one_line

LAST = 20


@click.command()
@options.target_options
@click.option("--all", "everything", is_flag=True, help=f"All runs, not only the last {LAST}.")
@options.json_option("Print JSON.")
def history(inventory: Path | None, profile: str | None, everything: bool, as_json: bool) -> int:
    """Show who changed the site, and when. The last run first.

    Prints verb, user and machine, options, outcome, changed stages and hosts. Reads the site's journal only. Runs that only read hosts are not listed.
    """
    runs = action.history(runs_of(options.target(inventory, profile)))
    shown = runs if everything else runs[-LAST:]
    if as_json:
        options.echo_json(
            documents.History(
                runs=tuple(
                    documents.HistoryRun(
                        **{
                            **vars(run),
                            "changed": {s: tuple(h) for s, h in run.changed.items()},
                            "failed": {s: tuple(h) for s, h in run.failed.items()},
                        }
                    )
                    for run in shown
                )
            )
        )
        return 0
    for run in reversed(shown):
        click.echo(one_line(_line(run)))
        for word, stages in (("changed", run.changed), ("failed", run.failed)):
            for hosts in dict.fromkeys(map(tuple, stages.values())):
                names = ", ".join(stage for stage, on in stages.items() if tuple(on) == hosts)
                click.echo(f"    {one_line(f'{word} {names} on {fold(hosts)}')}")
    if len(shown) < len(runs):
        click.echo(f"{len(runs) - len(shown)} earlier runs: --all")
    return 0


def _line(run: action.Run) -> str:
    took = f" in {duration((run.finished - run.started).total_seconds())}" if run.finished else ""
    words = [run.verb, run.scope]
    who = run.who or "user not recorded"
    return f"{run.started.astimezone():%Y-%m-%d %H:%M}  {' '.join(filter(None, words))}  {who}  {run.outcome}{took}  {run.run}"
