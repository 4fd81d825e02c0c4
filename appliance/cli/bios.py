"""appliance bios status, show, apply"""

from collections.abc import Callable
from pathlib import Path

import click

from appliance.actions import bios as action
from appliance.actions.bios import Compared, restarted
from appliance.cli import options
from appliance.cli.switching import FORCE, HARD, HOSTS, YES, tell
from appliance.config.document import text_of
from appliance.hidden import hidden
from appliance.report import documents
from appliance.report.wording import fold
from appliance.text import plural


@click.group()
def bios() -> None:
    """BIOS settings, as the profile wants them. By model of server (servers), through the management controllers.

    \b
    appliance bios show gpu-1                     all settings of a golden server, ready for the profile
    appliance bios status --inventory mysite      what differs, and where
    appliance bios apply gpu-1 'gpu-[2-4]'        sets it, starts those machines anew, and reads it back
    """


@bios.command()
@click.argument("hosts", nargs=-1)
@options.target_options
@options.json_option("What differs, as one JSON object.")
def status(
    hosts: tuple[str, ...], inventory: Path | None, profile: str | None, as_json: bool
) -> int:
    """Show which settings differ from the profile. Without HOSTS on all that have a controller; changes nothing.

    Exit: 0 all are as wanted, 1 some are not or are not known, 2 unusable input.
    """
    found = action.status(options.target(inventory, profile), options.quiet(), hosts)
    return _told(found, as_json)


@bios.command()
@click.argument("host")
@options.target_options
def show(host: str, inventory: Path | None, profile: str | None) -> int:
    """Print all settings of HOST, as servers of a profile has them. Take out what may differ from machine to machine.

    Exit: 0, 1 its controller does not say them, 2 unusable input.
    """
    seen = action.settings(options.target(inventory, profile), options.quiet(), host)
    # Where the controller does not say its model, any fits.
    named = {"model": seen.model or "*", "bios": dict(sorted(seen.settings.items()))}
    click.echo(text_of(hidden({"servers": [named]})), nl=False)
    return 0


@bios.command()
@HOSTS
@options.target_options
@HARD
@FORCE
@YES
@options.json_option("What each is afterwards, as one JSON object; needs --yes.")
def apply(
    hosts: tuple[str, ...],
    inventory: Path | None,
    profile: str | None,
    hard: bool,
    force: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Set what differs on HOSTS, start them anew, and read it back. Half an hour at most; a machine that was off is off again.

    Nothing is changed on a machine that does not say how a setting is now, or where somebody else's change waits. Refused where a
    host carries work. Exit: 0 all are as wanted, 1 some are not, 2 unusable input.
    """
    options.require_answer(yes, as_json)
    target = options.target(inventory, profile)
    done = action.apply(target, hosts, options.quiet(), _consent(yes), hard=hard, force=force)
    if done is None:
        click.echo("  Nothing was changed.")
        return 1
    return _told(done, as_json)


def _consent(yes: bool) -> Callable[[list[Compared]], bool]:
    def asked(found: list[Compared]) -> bool:
        if yes:
            return True
        _shown(found)
        differ = [one.host for one in found if one.changes]
        anew = restarted(found)
        how = f"and start anew: {fold(anew)}" if anew else "by a start and a stop"
        question = f"  Set it on {fold(differ)}, {how}. Go on?"
        return click.confirm(question, default=False)

    return asked


def _told(found: list[Compared], as_json: bool) -> int:
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
            options.echo(f"  {one.host:<16} as the profile wants, {named}{model}")
            continue
        options.echo(f"  {one.host:<16} {len(one.changes)} of {named} to set")
        for change in one.changes:
            options.echo(f"  {'':<16} {change}")
