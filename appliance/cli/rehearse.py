"""appliance rehearse"""

import time
from collections.abc import Iterator
from pathlib import Path

import click

from appliance.actions.sites import rehearsal as action
from appliance.cli import options
from appliance.report.documents import Rehearsal
from appliance.report.formatting import duration, fold

CODES = {"passed": 0, "failed": 1, "not tried": 3}
NAME = "rehearsal"


@click.command()
@options.target_options
@click.option("--name", default=NAME, show_default=True, help="Name of the virtual rack.")
@click.option(
    "--count",
    "most",
    type=click.IntRange(1, 32),
    help="Most hosts on the rack; default: as many as this machine holds.",
)
@click.option("--keep", is_flag=True, help="Keep the rack.")
@click.option("-v", "--verbose", is_flag=True, help="Also show the deployments.")
@options.json_option("Print the result as one JSON object.")
def rehearse(
    inventory: Path | None,
    profile: str | None,
    name: str,
    most: int | None,
    keep: bool,
    verbose: bool,
    as_json: bool,
) -> int:
    """Rehearse a deployment on a virtual rack of this machine.

    Creates hosts with the site's names, roles, classes and users, deploys the site that was deployed last, then the
    present one. Reports what restarts, which jobs and pods end, which checks fail, and what could not be rehearsed. The
    site's folder is only read, its hosts are not contacted, its secrets are replaced. Needs root. Removes the rack.

    Exit: 0 passed, 1 the change fails, 2 refused, 3 the deployed state could not be built, 130 interrupted.
    """
    watcher = options.observer(as_json=False, verbose=True) if verbose and not as_json else None
    try:
        done = action.rehearse(
            options.target(inventory, profile),
            name,
            most,
            keep=keep,
            say=_say,
            observer=watcher or options.quiet(),
        )
    except KeyboardInterrupt:
        options.echo("Interrupted. The rack was removed; the site is unchanged.", err=True)
        return 130
    if as_json:
        options.echo_json(done)
    else:
        for line in _lines(done):
            options.echo(line)
    return CODES[done.outcome]


def _say(text: str) -> None:
    click.echo(f"  {time.strftime('%H:%M:%S')}  {text}", err=True)


def _lines(done: Rehearsal) -> Iterator[str]:
    yield f"  {done.outcome.upper()}: {done.change} of site {done.site}, rehearsed on {fold(done.hosts)}"
    yield from _causes(done)
    yield from _work(done)
    before = f"as run {done.deployed} deployed it" if done.deployed else "new hosts"
    took = f"{duration(done.seconds_change)} for the change; rack {duration(done.seconds_rack)}, state before {duration(done.seconds_deployed)}"
    lacks = "; ".join(("real hardware, its drivers and firmware", *done.not_rehearsed))
    for title, told in (
        ("state before", before),
        ("time", took),
        ("failed before", ", ".join(done.before)),
        ("left out", fold(done.left_out) if done.left_out else ""),
        ("not rehearsed", lacks),
    ):
        if told:
            yield f"  {title:<14} {told}"
    if done.rack:
        yield f"  The rack was kept. Enter it:  appliance lab shell --name {done.rack} {done.hosts[0]}"
        yield f"  Remove it:  appliance lab down --name {done.rack}"


def _causes(done: Rehearsal) -> Iterator[str]:
    """What failed, hosts with the same cause together."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for one in done.failures:
        alike.setdefault((one.stage, one.cause, one.fix), []).append(one.host)
    found = [(f"✗ stage {s} of {fold(hosts)}: {cause}", fix) for (s, cause, fix), hosts in alike.items()]  # fmt: skip
    found += [(f"✗ {check.name}: {check.cause}", check.fix) for check in done.checks]
    if done.cause:
        found = [(done.cause, done.fix)]
    for text, fix in found:
        yield f"  {text}"
        if fix:
            yield f"    fix: {fix}"


def _work(done: Rehearsal) -> Iterator[str]:
    """What the change did to services and jobs."""
    if done.plan is None and not done.cause:
        yield "  Nothing to change."
    if done.plan and done.plan.reboots:
        yield f"  {'reboots':<14} {fold(done.plan.reboots)}"
    if done.plan and done.plan.drained:
        yield f"  {'drained':<14} {fold(done.plan.drained)}"
    alike: dict[tuple[str, ...], list[str]] = {}
    for host, units in done.restarts.items():
        alike.setdefault(units, []).append(host)
    for units, hosts in alike.items():
        yield f"  {'restarted':<14} {fold(hosts)}: {', '.join(units)}"
    for host, units in done.unannounced.items():
        yield f"  {'unannounced':<14} {host}: {', '.join(units)}"
    for job in done.jobs:
        told = "ran through" if job.ran_on else f"is {job.state}"
        yield f"  {'job' if job.scheduler == 'slurm' else 'pod':<14} on {job.host} {told}"
