"""appliance mig show, plan, apply, disable"""

from pathlib import Path
from typing import Any

import click

from appliance.actions.deployment.deploy import Deployed
from appliance.actions.hosts import mig as action
from appliance.cli import options, spoken
from appliance.models.plan import Plan
from appliance.report.console import plan_table, run_summary
from appliance.report.documents import Mig, MigOfHost

yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask before changing hosts.")


@click.group()
def mig() -> None:
    """Partition GPUs (MIG). Show the layouts, plan the changes to the declared ones, and apply them.

    \b
    appliance mig show                        show the layout of each GPU, with UUIDs and processes
    appliance mig plan --site mysite     show what would change, per GPU
    appliance mig apply --drain --yes         wait for jobs, partition GPUs, update Slurm
    appliance mig disable --hosts gpu-1        disable MIG where the site declares no layout
    """


@mig.command()
@options.target_options
@options.host_option
@options.json_option("Print the answers of the hosts as one JSON object.")
def show(inventory: Path | None, profile: str | None, hosts: tuple[str, ...], as_json: bool) -> int:
    """Show how each GPU is partitioned. With its devices and processes; changes nothing.

    Exit: 0 every host answered, 1 one did not, 2 unusable input.
    """
    seen = action.show(options.target(inventory, profile), options.quiet(), hosts)
    _show(seen, as_json)
    return 0 if seen.answered else 1


@mig.command()
@options.target_options
@options.host_option
@click.option(
    "--detailed-exitcode", is_flag=True, help="0 as declared, 1 error, 2 changes to make."
)
@options.json_option("Print the plan as one JSON object.")
def plan(
    inventory: Path | None,
    profile: str | None,
    hosts: tuple[str, ...],
    detailed_exitcode: bool,
    as_json: bool,
) -> int:
    """Show what apply would do to each declared GPU. And what prevents it; changes nothing.

    Exit: 0 every host answered, 1 one did not, 2 unusable input.
    """
    seen = action.plan(options.target(inventory, profile), options.quiet(), hosts)
    _show(seen, as_json)
    if not seen.answered:
        return 1
    return 2 if detailed_exitcode and seen.differing else 0


@mig.command()
@options.target_options
@click.option("--drain", is_flag=True, help="First drain the hosts that differ, and wait.")
@click.option(
    "--wait",
    "minutes",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    help="Minutes to wait for jobs and pods when draining.",
)
@yes_option
def apply(
    inventory: Path | None, profile: str | None, drain: bool, minutes: float, yes: bool
) -> int:
    """Partition GPUs as declared, and update Slurm. Runs stages mig and slurm only.

    Only GPUs that differ are changed. A GPU in use is left unchanged, and its processes are listed.
    Exit as for deploy: 0 good, 1 failed, 2 unusable input, 3 incomplete, 130 interrupted.

    \b
    appliance mig apply                       show the plan and ask
    appliance mig apply --drain --wait 240    wait up to four hours for jobs on hosts that differ
    """
    options.require_answer(yes)
    target = options.target(inventory, profile)
    console = options.console()
    if drain and not yes:
        seen = action.plan(target, options.quiet())
        _show(seen, as_json=False)
        if seen.differing and not click.confirm("\n  Drain and change these hosts?", default=False):
            console.print("  Nothing was changed.")
            return 1
        yes = True
    watcher = options.observer(as_json=False)
    with watcher:
        done = action.apply(target, watcher, _consent(yes), minutes * 60 if drain else None)
    return _end(done, inventory, profile)


@mig.command()
@options.target_options
@options.host_option
@yes_option
def disable(inventory: Path | None, profile: str | None, hosts: tuple[str, ...], yes: bool) -> int:
    """Disable MIG on GPUs. Disables the unit that partitions them at boot, and updates Slurm.

    Only for hosts without a declared layout. To change a declared layout, edit the site.
    """
    options.require_answer(yes)
    target = options.target(inventory, profile)
    if not yes:
        _show(action.show(target, options.quiet(), hosts), as_json=False)
        if not click.confirm("\n  Disable MIG on these GPUs?", default=False):
            options.echo("  Nothing was changed.")
            return 1
    seen = action.disable(target, options.quiet(), hosts)
    _show(seen, as_json=False)
    watcher = options.observer(as_json=False)
    with watcher:
        done = action.follow(target, watcher, _consent(True))
    code = _end(done, inventory, profile) if done else 0
    return code if seen.answered and not _bad(seen) else 1


def _consent(yes: bool) -> Any:
    def consent(plan: Plan) -> bool:
        plan_table(options.console(), plan)
        return yes or click.confirm("\n  Change these hosts?", default=False)

    return consent


def _end(done: Deployed, inventory: Path | None, profile: str | None) -> int:
    console = options.console()
    if done.record is None:
        console.print("  Nothing was changed.")
        return done.exit_code
    console.print()
    following = options.command_line(inventory, profile, "mig show")
    run_summary(console, spoken.advice(done.record), done.report, following, stages=False)
    return done.exit_code


def _bad(seen: action.MigAnswers) -> bool:
    return any(
        g.get("state") in {action.REFUSED, action.FAILED, "pending"}
        for gs in seen.hosts.values()
        for g in gs
    )


def _show(seen: action.MigAnswers, as_json: bool) -> None:
    if as_json:
        hosts = {host: MigOfHost(gpus=tuple(gpus)) for host, gpus in seen.hosts.items()}
        hosts |= {h: MigOfHost(error=e.message, fix=e.hint) for h, e in seen.silent.items()}
        options.echo_json(Mig(site=seen.site, simulated=seen.simulated, hosts=hosts))
        return
    if seen.simulated:
        options.echo("Simulated: gpu.")
    for host, gpus in seen.hosts.items():
        for gpu in gpus:
            options.echo(f"  {host:<12} GPU {gpu['gpu']}  {_line(gpu)}")
            for one in gpu.get("instances", ()):
                devices = ", ".join(one["devices"]) or "no compute instance"
                options.echo(f"  {'':<12}        {one['profile']:<11} at {one['start']}  {devices}")
    for host, error in seen.silent.items():
        options.echo(
            f"  {host:<12} {error.message}" + (f"  fix: {error.hint}" if error.hint else "")
        )


def _line(gpu: dict[str, Any]) -> str:
    """The layout, and the change planned or made."""
    if "error" in gpu:
        return str(gpu["error"])
    layout = str(gpu.get("layout", "unknown"))
    if gpu.get("pending"):
        layout += " (a mode change is pending until the GPU is reset)"
    if "state" not in gpu:
        used = ", ".join(f"{p['pid']} {p['name']} ({p['user']})" for p in gpu.get("processes", ()))
        return layout + (f"  used by {used}" if used else "")
    match gpu["state"]:
        case "unchanged":
            return f"{layout}: as declared"
        case "differs":
            return f"{layout} → {gpu.get('wanted', '')}: {'; '.join(gpu.get('steps', ()))}"
        case "changed":
            return f"{layout}: changed"
        case state:
            return f"{layout}: {state}: {gpu.get('why', '')}"
