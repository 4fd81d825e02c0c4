"""appliance bios status, show, apply"""

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from appliance.actions.bmc import bios as action
from appliance.actions.bmc import firmware
from appliance.actions.bmc.bios import Compared, restarted
from appliance.actions.bmc.firmware import FirmwareOfHost
from appliance.cli import options
from appliance.cli.switching import FORCE, HARD, HOSTS, YES, tell
from appliance.cli.waves import EVICT, WAIT, order_lines, result_lines
from appliance.config.document import text_of
from appliance.hidden import hidden
from appliance.models.site import Host
from appliance.report import documents
from appliance.report.formatting import fold
from appliance.text import plural


@click.group()
def bios() -> None:
    """Compare and set BIOS settings, and update firmware. Per server model (servers), through the BMC.

    \b
    appliance bios show gpu-1                     print all settings of a reference server, ready for the profile
    appliance bios status --site mysite      show which settings differ, and on which hosts
    appliance bios apply gpu-1 'gpu-[2-4]'        set them, restart these hosts, and read the settings back
    appliance bios firmware                       show which firmware is older than in the profile
    appliance bios update 'gpu-[1-4]'             update it in waves, drained, through the BMCs
    """


@bios.command()
@click.argument("hosts", nargs=-1)
@options.target_options
@options.json_option("Print the differences as one JSON object.")
def status(
    hosts: tuple[str, ...], inventory: Path | None, profile: str | None, as_json: bool
) -> int:
    """Show which settings differ from the profile. Without HOSTS: all hosts that have a BMC. Changes nothing.

    Exit: 0 all settings match, 1 some differ or are unknown, 2 unusable input.
    """
    found = action.status(options.target(inventory, profile), options.quiet(), hosts)
    return _print_settings(found, as_json)


@bios.command()
@click.argument("host")
@options.target_options
def show(host: str, inventory: Path | None, profile: str | None) -> int:
    """Print all BIOS settings of HOST, in the format of a profile. Remove those that may differ between hosts.

    Exit: 0 printed, 1 its BMC does not report them, 2 unusable input.
    """
    seen = action.settings(options.target(inventory, profile), options.quiet(), host)
    # Without a model reported by the BMC, any model matches.
    named = {"model": seen.model or "*", "bios": dict(sorted(seen.settings.items()))}
    click.echo(text_of(hidden({"servers": [named]})), nl=False)
    return 0


@bios.command()
@HOSTS
@options.target_options
@HARD
@FORCE
@YES
@options.json_option("Print the state of each host afterwards as one JSON object; needs --yes.")
def apply(
    hosts: tuple[str, ...],
    inventory: Path | None,
    profile: str | None,
    hard: bool,
    force: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Set what differs on HOSTS, restart them, and read it back. Takes at most half an hour; a host that was off is switched off again.

    A host is left unchanged if its BMC does not report a setting's current value, or if another pending change exists.
    Refused while a host carries work. Exit: 0 all settings match, 1 some do not, 2 unusable input.
    """
    options.require_answer(yes, as_json)
    target = options.target(inventory, profile)
    done = action.apply(target, hosts, options.quiet(), _consent(yes), hard=hard, force=force)
    if done is None:
        click.echo("  Nothing was changed.")
        return 1
    return _print_settings(done, as_json)


@bios.command("firmware")
@click.argument("hosts", nargs=-1)
@options.target_options
def firmware_status(hosts: tuple[str, ...], inventory: Path | None, profile: str | None) -> int:
    """Show which firmware is older than in the profile. Without HOSTS: on all hosts that have a BMC. Changes nothing.

    Exit: 0 nothing is older, 1 some is older or unknown, 2 unusable input.
    """
    found = firmware.status(options.target(inventory, profile), options.quiet(), hosts)
    _older(found)
    return 0 if all(one.is_good for one in found) else 1


@bios.command()
@HOSTS
@options.target_options
@click.option(
    "--at-once", type=click.IntRange(1), default=1, show_default=True, help="Hosts in a wave."
)
@WAIT
@EVICT
@YES
def update(
    hosts: tuple[str, ...],
    inventory: Path | None,
    profile: str | None,
    at_once: int,
    minutes: float,
    evict: bool,
    yes: bool,
) -> int:
    """Update firmware that is older than in the profile, in waves. Hosts are drained, updated by their BMCs, judged and returned.

    The BMC fetches the image of the profile (servers[].images). Each task is watched to its end, and the version read back.
    The first failure stops the rest. Run the command again after an interruption: no task is ordered twice.
    Exit: 0 nothing is older, 1 some failed or were not reached, 2 unusable input.
    """

    def consent(found: Sequence[FirmwareOfHost], order: Sequence[Sequence[Host]]) -> bool:
        _older([one for one in found if one.changes])
        for line in order_lines(order):
            options.echo(line)
        return yes or click.confirm("  Update the firmware in this order?", default=False)

    target = options.target(inventory, profile)
    done = firmware.update(
        target, options.quiet(), hosts, consent, minutes, at_once=at_once, evict=evict
    )
    if done is None:
        options.echo("  Nothing was changed.")
        return 1
    worked, rest = done
    if not worked:
        options.echo("  No firmware is older than in the profile.")
    for line in result_lines(worked, rest, "has its firmware, and is back", "updated"):
        options.echo(line)
    return int(bool(rest) or not all(one.is_good for one in worked))


def _older(found: Sequence[FirmwareOfHost]) -> None:
    for one in found:
        if one.error:
            tell(one.host, one.error)
        elif not one.changes:
            options.echo(f"  {one.host:<16} nothing is older than in the profile")
        for change in one.changes:
            image = f", from {change.image}" if change.image else ", without image in the profile"
            options.echo(f"  {one.host:<16} {change}{image}")


def _consent(yes: bool) -> Callable[[list[Compared]], bool]:
    def asked(found: list[Compared]) -> bool:
        if yes:
            return True
        _shown(found)
        differ = [one.host for one in found if one.changes]
        anew = restarted(found)
        how = f"and restart: {fold(anew)}" if anew else "by switching it on and off"
        question = f"  Set it on {fold(differ)}, {how}. Continue?"
        return click.confirm(question, default=False)

    return asked


def _print_settings(found: list[Compared], as_json: bool) -> int:
    if as_json:
        options.echo_json(documents.BiosSettings(hosts={one.host: _document(one) for one in found}))
    else:
        _shown(found)
    return 0 if all(one.is_good for one in found) else 1


def _document(one: Compared) -> documents.BiosOfHost:
    return documents.BiosOfHost(
        model=one.model,
        power=one.power,
        named=None if one.wanted is None else len(one.wanted),
        changes=tuple(documents.BiosChange.model_validate(vars(c)) for c in one.changes),
        error=one.error.message if one.error else "",
        fix=one.error.hint if one.error else "",
    )


def _shown(found: list[Compared]) -> None:
    for one in found:
        if one.error:
            tell(one.host, one.error)
            continue
        named = plural(len(one.wanted or {}), "setting")
        if not one.changes:
            model = f" of {one.model}" if one.model else ""
            options.echo(f"  {one.host:<16} matches the profile, {named}{model}")
            continue
        options.echo(f"  {one.host:<16} {len(one.changes)} of {named} to set")
        for change in one.changes:
            options.echo(f"  {'':<16} {change}")
