"""appliance plan"""

from pathlib import Path

import click

from appliance.actions.deployment import plan as action
from appliance.cli import options, spoken
from appliance.errors import ApplianceError
from appliance.report import junit
from appliance.report.console import plan_table


@click.command()
@options.target_options
@options.narrowing_options
@click.option(
    "--detailed-exitcode",
    is_flag=True,
    help="0 nothing to do, 1 error or a host without facts, 2 changes to make.",
)
@options.format_option("junit")
def plan(
    inventory: Path | None,
    profile: str | None,
    limit: tuple[str, ...],
    stages: tuple[str, ...],
    until: str | None,
    full: bool,
    detailed_exitcode: bool,
    shape: str,
    as_json: bool,
) -> int:
    """Show what a deployment would do, and why. For each host, with the expected duration. Changes nothing.

    Exit: 0 the plan is complete, 1 some host gave no facts, 2 unusable input.
    """
    shape = options.chosen_format(shape, as_json)
    chosen = options.filters(limit, stages, until, full)
    try:
        made = action.make(
            options.target(inventory, profile),
            chosen,
            options.quiet(),
        )
    except ApplianceError as error:
        if detailed_exitcode:
            error.exit_code = 1
        raise
    if shape == "json":
        options.echo_json(made)
    elif shape == "junit":
        click.echo(junit.render_plan(spoken.advice_elsewhere(made)), nl=False)
    else:
        console = options.console()
        plan_table(console, spoken.advice(made))
        if made.changes:
            words = (chosen.words, "--full" if full else "")
            command = options.command_line(inventory, profile, "deploy", *filter(None, words))
            line = f"  Nothing was changed. To apply: {command}"
            console.print(line, highlight=False, soft_wrap=True)
    if made.unreachable:
        return 1
    return 2 if detailed_exitcode and made.changes else 0
