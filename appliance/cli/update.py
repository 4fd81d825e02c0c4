"""appliance update plan, apply, back"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import click

from appliance.actions.hosts import updates as action
from appliance.actions.hosts.updates import Choice, HostUpdates, Update, Waves
from appliance.cli import options
from appliance.cli.waves import EVICT, WAIT, YES, order_lines, result_lines
from appliance.report.documents import HostPackageUpdates, PackageUpdate, PackageUpdates
from appliance.report.formatting import fold

SHOWN = 20
"""Packages that are listed without --details."""
SECURITY = click.option(
    "--security", is_flag=True, help="Only updates from a security archive, and what they need."
)
KERNEL = click.option("--kernel", is_flag=True, help="Also the kernel; hosts reboot.")
HOSTS_OPTION = click.option("--hosts", "limit", multiple=True, metavar="HOSTS", help=options.HOSTS)
NO_REBOOT = click.option(
    "--no-reboot", is_flag=True, help="Do not reboot; name the hosts that need it."
)


@click.group()
def update() -> None:
    """Update the distribution's packages in waves, and go back.

    \b
    appliance update plan --site mysite                        what would change; changes no package
    appliance update apply --security --site mysite            security updates: one host first, then the others
    appliance update apply --canary gpu-3 --at-once 4          updates gpu-3 first, then four hosts at a time
    appliance update back gpu-3 --site mysite                  install the packages that the last update replaced

    Releases that the site names (driver, Slurm, Kubernetes, containerd) change with site.yml and appliance deploy.
    """


@update.command("plan")
@options.target_options
@HOSTS_OPTION
@SECURITY
@KERNEL
@click.option("--details", is_flag=True, help=f"List all packages, not only {SHOWN}.")
@options.json_option("Print the updates as one JSON object.")
def show(
    inventory: Path | None,
    profile: str | None,
    limit: tuple[str, ...],
    security: bool,
    kernel: bool,
    details: bool,
    as_json: bool,
) -> int:
    """Show what an update would change. Hosts read their mirrors' package lists; no package changes.

    Exit: 0 known for all hosts, 1 unknown for one, 2 unusable input.
    """
    choice = Choice(limit, security, kernel)
    site, found = action.plan(options.target(inventory, profile), choice, options.quiet())
    if as_json:
        hosts = {one.host: _document(one) for one in found}
        options.echo_json(PackageUpdates(site=site, hosts=hosts))
    else:
        words = [*(["--security"] if security else []), *(["--kernel"] if kernel else [])]
        then = options.command_line(inventory, profile, "update apply", *words)
        for line in _lines(found, None if details else SHOWN):
            options.echo(line)
        if any(one.updates for one in found):
            options.echo(f"  to install them in waves: {then}")
    return int(any(one.error for one in found))


@update.command()
@options.target_options
@HOSTS_OPTION
@SECURITY
@KERNEL
@click.option("--canary", default="", metavar="HOST", help="Update this host first, alone.")
@click.option(
    "--at-once",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of GPU hosts that are updated at the same time after the first.",
)
@WAIT
@EVICT
@NO_REBOOT
@YES
def apply(
    inventory: Path | None,
    profile: str | None,
    limit: tuple[str, ...],
    security: bool,
    kernel: bool,
    canary: str,
    at_once: int,
    minutes: float,
    evict: bool,
    no_reboot: bool,
    yes: bool,
) -> int:
    """Update hosts in waves. One host first; each is drained, updated, rebooted if needed, judged, and returned.

    Copies of the old packages are kept on each host before the first change. Login, storage and control hosts follow one
    by one. The first host that is not free, fails to update or fails a check stops the rest. It stays drained unless it
    was not updated; then the same command continues.
    Exit: 0 all updated, 1 stopped or declined, 2 unusable input.
    """
    options.require_answer(yes)

    def consent(found: Sequence[HostUpdates], order: Waves) -> bool:
        for line in [*_lines(found, SHOWN), *order_lines(order)]:
            options.echo(line)
        return yes or click.confirm("\n  Update them in this order?", default=False)

    watcher = options.observer(as_json=False)
    with watcher:
        done = action.apply(
            options.target(inventory, profile),
            Choice(limit, security, kernel),
            watcher,
            consent,
            minutes,
            canary=canary,
            at_once=at_once,
            evict=evict,
            reboots=not no_reboot,
        )
    if done is None:
        options.echo("  Nothing was changed.")
        return 1
    worked, rest = done
    for line in result_lines(worked, rest, "is updated", "updated"):
        options.echo(line)
    if not worked:
        options.echo("  ✓ nothing to update")
    for bad in (one.host for one in worked if not one.is_good):
        for said, verb in (("to go back", "update back"), ("or after the fix", "node return")):
            options.echo(f"  {said}: {options.command_line(inventory, profile, verb, bad)}")
    return 0 if all(one.is_good for one in worked) else 1


@update.command()
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...")
@options.target_options
@WAIT
@EVICT
@NO_REBOOT
@YES
def back(
    hosts: tuple[str, ...],
    inventory: Path | None,
    profile: str | None,
    minutes: float,
    evict: bool,
    no_reboot: bool,
    yes: bool,
) -> int:
    """Undo the last update of hosts, one by one. Installs the old packages from the copies on the host.

    Packages that the update added are removed; a new kernel stays installed. Each host is drained, rebooted if needed, and
    judged; it returns to service, unless an operator drained it.
    Exit: 0 all are back, 1 stopped or declined, 2 unusable input, such as a host without an update.
    """
    options.require_answer(yes)

    def consent(order: Waves) -> bool:
        for line in order_lines(order):
            options.echo(line)
        return yes or click.confirm("\n  Undo their last update in this order?", default=False)

    watcher = options.observer(as_json=False)
    with watcher:
        done = action.back(
            options.target(inventory, profile),
            hosts,
            watcher,
            consent,
            minutes,
            evict=evict,
            reboots=not no_reboot,
        )
    if done is None:
        options.echo("  Nothing was changed.")
        return 1
    for line in result_lines(*done, "has its old packages", "changed"):
        options.echo(line)
    return 0 if all(one.is_good for one in done[0]) else 1


def _lines(found: Sequence[HostUpdates], most: int | None) -> list[str]:
    hosts: dict[Update, list[str]] = defaultdict(list)
    for one in found:
        for change in one.updates:
            hosts[change].append(one.host)
    changes = sorted(hosts, key=lambda change: (not change.security, change.name, change.new))
    count = sum(1 for one in found if one.updates)
    secure = sum(change.security for change in changes)
    lines = [
        f"  {len(changes)} updates ({secure} from security archives) for {count} of {len(found)} hosts"
        if changes
        else "  no updates"
    ]
    width = max((len(change.name) for change in changes), default=0)
    for change in changes[:most]:
        old = f"{change.old} → " if change.old else "new: "
        mark = "  security" if change.security else ""
        lines.append(f"    {change.name:<{width}}  {old}{change.new}{mark}  {fold(hosts[change])}")
    if most is not None and len(changes) > most:
        lines.append(f"    and {len(changes) - most} more: appliance update plan --details")
    if held := sorted({name for one in found for name in one.held}):
        more = f" and {len(held) - 3} more" if len(held) > 3 else ""
        lines.append(f"  not updated, as stages manage them: {', '.join(held[:3])}{more}")
    for one in found:
        if one.error:
            lines.append(f"  ✗ {one.host}: {one.error.message}")
            lines += [f"      fix: {one.error.hint}"] if one.error.hint else []
    return lines


def _document(one: HostUpdates) -> HostPackageUpdates:
    return HostPackageUpdates(
        updates=tuple(
            PackageUpdate(name=u.name, old=u.old, new=u.new, security=u.security)
            for u in one.updates
        ),
        held=one.held,
        can_go_back=one.can_go_back,
        error=one.error.message if one.error else "",
        fix=one.error.hint if one.error else "",
    )
