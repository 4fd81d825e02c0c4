"""appliance deploy"""

import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from appliance.actions.deployment import deploy as action
from appliance.actions.deployment import first_steps
from appliance.cli import options, spoken
from appliance.models.plan import Plan
from appliance.models.run import StageState
from appliance.models.site import Site
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
@click.option(
    "--without",
    "left_out",
    multiple=True,
    type=click.Choice(["kubernetes"]),
    help="Create the virtual rack without this: Slurm instead of a cluster. Only without a site.",
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
    left_out: tuple[str, ...],
    yes: bool,
    take_over: bool,
    verbose: bool,
    as_json: bool,
) -> int:
    """Deploy the site, verify it, and write the report.

    Shows the plan and asks before it changes anything. Machines that are off and were never installed from here get
    their system first, where the site names an image and their controllers. What is finished is not repeated: after a failure or
    an interrupt, the same command continues. Exit: 0 good, 1 failed, 2 unusable input, 3 incomplete, 130 interrupted.
    """
    options.require_answer(yes, as_json)
    target = options.target(inventory, profile)
    if left_out and not target.embedded:
        raise click.UsageError(
            f"--without goes with the virtual rack, and this is the site in {target.inventory}: take section kubernetes out of its site.yml"
        )
    target = replace(target, kubernetes=not left_out)
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
        offers = []
        finished = {StageState.DONE, StageState.SKIPPED}
        whole = all(o.state in finished for o in done.record.outcomes)
        if done.site and whole and not (done.goes_on or done.record.narrowed):
            offers = _offers(done.site, inventory, embedded=target.embedded)
        console.print()
        run_summary(
            console,
            spoken.advice(done.record),
            done.report,
            following,
            stages=not told,
            offers=offers,
        )
    return done.exit_code


def _offers(site: Site, inventory: Path | None, *, embedded: bool) -> list[tuple[str, str]]:
    """What the site has, what it does not ask for, and the first command of each of its schedulers."""
    offers = [
        ("deployed", ", ".join(first_steps.deployed(site))),
        ("not asked for", ", ".join(first_steps.not_asked_for(site))),
    ]
    user, host, job = first_steps.member(site), first_steps.desk(site), first_steps.job(site)
    # On the rack members have their kubeconfig and a pod to try where they log in.
    shell = f"appliance lab shell {host} --"
    if user and embedded:
        offers.append(("in Kubernetes", f"{shell} su - {user} -c '{first_steps.POD}'"))
    elif user:
        command = options.command_line(inventory, None, "kubeconfig")
        # A member's is signed by the cluster's API, which an administrator's opens.
        offers.append(("in Kubernetes", f"{command} && {command} --user {shlex.quote(user)}"))
    if user:
        offers.append(("queues", options.command_line(inventory, None, "queue status")))
    if site.mig.declares:
        offers.append(("divided GPUs", options.command_line(inventory, None, "mig show")))
    if job:
        offers.append(("in Slurm", f"{shell} {job}" if embedded else f"ssh {host} {job}"))
    return offers


def _taking_over(given: bool, *, asks: bool, err: bool) -> Callable[[str], bool]:
    """Whether hosts that another control machine changes are taken over: by the option, or by a person who is asked."""

    def may(said: str) -> bool:
        if given or not asks or not sys.stdin.isatty():
            return given
        return click.confirm(f"\n  {said}.\n  Take these hosts over?", default=False, err=err)

    return may
