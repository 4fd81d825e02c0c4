"""appliance accept"""

from pathlib import Path

import click

from appliance.actions.acceptance import accept as action
from appliance.actions.acceptance.accept import AcceptResult
from appliance.actions.acceptance.handover import UNSIGNED
from appliance.cli import options, spoken
from appliance.cli.files import InputFile
from appliance.report.console import run_summary


@click.command()
@options.target_options
@click.option(
    "--look", is_flag=True, help="Measure nothing: list what is open, and how to close it."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder for the hand-over; default: the folder of this run.",
)
@click.option(
    "--sign",
    type=InputFile(),
    metavar="KEY",
    help="Sign with this SSH key: Ed25519, or a key on a hardware token. Without it, the hand-over is unsigned.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print every step as a line.")
@options.json_option("Print the record of the run as one JSON object.")
def accept(
    inventory: Path | None,
    profile: str | None,
    look: bool,
    output: Path | None,
    sign: Path | None,
    verbose: bool,
    as_json: bool,
) -> int:
    """Accept a site: run all levels, then write the hand-over. Changes no configuration.

    Hardware, firmware, system, GPU, fabric, storage and schedulers are judged by their current checks. Hosts, cluster,
    training, serving and burn-in are judged by measurements. The cluster is measured after every host has passed.
    Measurements that are still valid are not repeated: the same command continues where it stopped, also days later.

    \b
    List what is open:     appliance accept --look --site mysite
    Continue and sign:     appliance accept --sign ~/.ssh/id_ed25519 --site mysite

    Exit: 0 accepted and handed over, 1 a level failed or hardware is simulated, 2 unusable input, 3 something is open.
    """
    watcher = options.quiet() if as_json else options.observer(as_json, verbose)
    target = options.target(inventory, profile)
    taken = action.accept(target, watcher, runs=not look, output=output, sign=sign)
    if as_json:
        options.echo_json(taken.record)
    else:
        _show(taken)
    return taken.exit_code


def _show(taken: AcceptResult) -> None:
    run_summary(options.console(), spoken.advice(taken.record), taken.report)
    if taken.written is None:
        click.echo("  The hand-over is written once the site is accepted.")
        return
    handed = taken.written.handover
    click.echo(f"  hand-over  {taken.written.archive}")
    click.echo(f"             {taken.written.folder}/handover.html")
    if handed.signer:
        click.echo(f"  signed with {handed.signer}")
    else:
        click.secho(f"  {UNSIGNED} Sign it: appliance accept --sign KEY", fg="red", bold=True)
    if handed.pdf:
        click.echo(f"  {handed.pdf}")
    for why in handed.not_enclosed:
        click.echo(f"  not enclosed: {why}")
