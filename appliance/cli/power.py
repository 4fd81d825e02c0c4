"""appliance power status, on, off, cycle"""

from collections.abc import Callable
from pathlib import Path

import click

from appliance.actions.bmc import power as action
from appliance.actions.bmc.power import PowerAction, Powered
from appliance.cli import options
from appliance.cli.switching import FORCE, HARD, HOSTS, YES, tell
from appliance.report.formatting import fold


@click.group()
def power() -> None:
    """Switch machines on and off through their BMCs. The machines need neither an operating system nor SSH.

    \b
    appliance power status --site mysite     show which machines are on
    appliance power on head 'gpu-[1-4]'           switch on and wait until they are on; zsh needs the quotes
    appliance power cycle gpu-1                   shut down, off, on again; refused while gpu-1 carries work
    """


@power.command()
@click.argument("hosts", nargs=-1)
@options.target_options
def status(hosts: tuple[str, ...], inventory: Path | None, profile: str | None) -> int:
    """Show which machines are on. Without HOSTS: all that have a BMC. Changes nothing.

    Exit: 0 all are known, 1 some are not, 2 unusable input.
    """
    return _shown(action.status(options.target(inventory, profile), options.quiet(), hosts))


@power.command()
@HOSTS
@options.target_options
@YES
def on(hosts: tuple[str, ...], inventory: Path | None, profile: str | None, yes: bool) -> int:
    """Switch HOSTS on. Machines that are on already are skipped. Exit: 0 all are on, 1 some are not, 2 unusable input."""
    return _switched(PowerAction.ON, hosts, inventory, profile, yes)


@power.command()
@HOSTS
@options.target_options
@HARD
@FORCE
@YES
def off(
    hosts: tuple[str, ...],
    inventory: Path | None,
    profile: str | None,
    hard: bool,
    force: bool,
    yes: bool,
) -> int:
    """Shut HOSTS down. The operating system has 10 minutes to shut down; --hard cuts the power.

    Refused while a host carries work. Exit: 0 all are off, 1 some are not, 2 unusable input.
    """
    return _switched(PowerAction.OFF, hosts, inventory, profile, yes, hard=hard, force=force)


@power.command()
@HOSTS
@options.target_options
@HARD
@FORCE
@YES
def cycle(
    hosts: tuple[str, ...],
    inventory: Path | None,
    profile: str | None,
    hard: bool,
    force: bool,
    yes: bool,
) -> int:
    """Switch HOSTS off and on again. Shuts down like off, and switches on only after the BMC reports that they are off.

    Refused while a host carries work. Exit: 0 all are on again, 1 some are not, 2 unusable input.
    """
    return _switched(PowerAction.CYCLE, hosts, inventory, profile, yes, hard=hard, force=force)


def _switched(
    wish: PowerAction,
    hosts: tuple[str, ...],
    inventory: Path | None,
    profile: str | None,
    yes: bool,
    *,
    hard: bool = False,
    force: bool = False,
) -> int:
    options.require_answer(yes)
    target = options.target(inventory, profile)
    consent = _consent(wish, yes, hard)
    done = action.power(target, wish, hosts, options.quiet(), consent, hard=hard, force=force)
    if done is None:
        click.echo("  Nothing was changed.")
        return 1
    return _shown(done)


def _consent(wish: PowerAction, yes: bool, hard: bool) -> Callable[[tuple[str, ...]], bool]:
    how = ", without a shutdown of the operating system" if hard else ""

    def asked(hosts: tuple[str, ...]) -> bool:
        question = f"  Power {wish}{how}: {fold(hosts)}. Continue?"
        return yes or click.confirm(question, default=False)

    return asked


def _shown(found: list[Powered]) -> int:
    for one in found:
        if one.error:
            tell(one.host, one.error)
        else:
            options.echo(f"  {one.host:<16} {one.state or 'its BMC does not report'}")
    return 0 if all(one.state and not one.error for one in found) else 1
