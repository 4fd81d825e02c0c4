"""appliance deploy"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from appliance.actions import deploy as action
from appliance.cli import options, spoken
from appliance.models.plan import Plan
from appliance.models.result import Verdict
from appliance.models.run import StageState
from appliance.report.console import plan_table, run_summary


@click.command()
@options.target_options
@options.narrowing_options
@click.option(
    "--accept-facts",
    "accept_facts",
    multiple=True,
    metavar="HOSTS",
    help="The hardware of these hosts was changed on purpose: accept what they report (repeatable).",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask before changing hosts.")
@click.option(
    "--take-over",
    is_flag=True,
    help="Change hosts that another control machine is changing, or was when it died.",
)
@click.option("-v", "--verbose", is_flag=True, help="Every task as a line.")
@options.json_option("Events as JSON, one object per line.")
def deploy(
    inventory: Path | None,
    profile: str | None,
    limit: tuple[str, ...],
    stages: tuple[str, ...],
    until: str | None,
    full: bool,
    accept_facts: tuple[str, ...],
    yes: bool,
    take_over: bool,
    verbose: bool,
    as_json: bool,
) -> int:
    """Bring the site to its profile, prove it, and write the report.

    Shows the plan and asks before it changes anything. Machines that are off and were never installed from here get
    their system first, where the site names an image and their controllers. What is finished is not repeated: after a failure or
    an interrupt, the same command continues. Exit: 0 good, 1 failed, 2 unusable input, 3 incomplete, 130 interrupted.
    """
    options.require_answer(yes, as_json)
    target = options.target(inventory, profile)
    console = options.console(stderr=as_json)
    watcher = options.observer(as_json, verbose)

    def consent(plan: Plan) -> bool:
        if not as_json:
            plan_table(console, spoken.advice(plan))
        if yes:
            return True
        return click.confirm("\n  Change these hosts?", default=False)

    def may_install(names: tuple[str, ...]) -> bool:
        question = f"Install {', '.join(names)}, which are off and were never installed from here?"
        return yes or click.confirm(f"\n  {question}", default=False, err=as_json)

    with watcher:
        done = action.deploy(
            target,
            replace(options.filters(limit, stages, until, full), accept_facts=accept_facts),
            watcher,
            consent,
            may_install,
            _taking_over(take_over, asks=not yes, err=as_json),
        )
    if done.record is None:
        console.print("  Nothing was changed.")
        return done.exit_code
    if not as_json:
        told = any(o.state is not StageState.SKIPPED for o in done.record.outcomes)
        following = options.command_line(inventory, None, "health")
        if done.goes_on or done.record.narrowed:
            following = options.command_line(inventory, profile, "deploy")
        elif target.embedded and done.exit_code != Verdict.FAILED.exit_code:
            following = "appliance lab shell head -- srun -N2 --gres=gpu:8 hostname"
        console.print()
        run_summary(console, spoken.advice(done.record), done.report, following, stages=not told)
    return done.exit_code


def _taking_over(given: bool, *, asks: bool, err: bool) -> Callable[[str], bool]:
    """Whether hosts that another control machine changes are taken over: by the option, or by a person who is asked."""

    def may(said: str) -> bool:
        if given or not asks or not sys.stdin.isatty():
            return given
        return click.confirm(f"\n  {said}.\n  Take these hosts over?", default=False, err=err)

    return may
