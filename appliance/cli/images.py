"""appliance images show, lock"""

import os
from collections.abc import Iterator
from pathlib import Path

import click

from appliance.actions import images as action
from appliance.actions.images import Change, Seen
from appliance.cli import options
from appliance.models.images import Held, RunningImage
from appliance.report.documents import ImageChange, Images, ImagesLocked
from appliance.report.wording import fold
from appliance.text import plural


@click.group()
def images() -> None:
    """Images of the site's cluster. What runs by digest, and what was accepted at hand-over.

    \b
    What runs, and whether it was accepted:   appliance images show --inventory mysite
    Accept it, once it has been compared:     appliance images lock --inventory mysite
    """


@images.command()
@options.target_options
@options.json_option("What was found, as one JSON object.")
def show(inventory: Path | None, profile: str | None, as_json: bool) -> int:
    """Show which image each name stands for. By what the pods' status says; changes nothing.

    Of kube-system and the namespaces of stages scheduler and workloads. Exit: 0 nothing differs, 1 something does or
    nobody answered, 2 unusable input.
    """
    seen = action.look(options.target(inventory, profile), options.quiet())
    if as_json:
        options.echo_json(_document(seen))
    else:
        for line in _lines(seen, options.command_line(inventory, profile, "images lock")):
            options.echo(line)
    return 0 if seen.good else 1


@images.command()
@options.target_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@options.json_option("What was changed, as one JSON object.")
def lock(inventory: Path | None, profile: str | None, yes: bool, as_json: bool) -> int:
    """Accept what runs. Writes images.lock into the site's folder, from which health and deploy judge it.

    Compare first: nobody but you knows what was meant to run. Where an image is not the same on all hosts nothing is
    written. Exit: 0 as it runs, 1 refused or declined, 2 unusable input.
    """
    options.require_answer(yes, as_json)
    seen = action.look(options.target(inventory, profile), options.quiet())
    wanted = action.wanted(seen)
    changes = action.changes(seen, wanted)
    if not as_json:
        for change in changes:
            options.echo(_change(change))
    if changes and not yes and not click.confirm(f"\n  Accept {plural(len(changes), 'change')}?"):
        options.echo("  Nothing was changed.")
        return 1
    if changes or seen.lock is None:
        action.lock(seen, wanted)
    if as_json:
        told = tuple(ImageChange(image=c.image, before=c.before, after=c.after) for c in changes)
        options.echo_json(ImagesLocked(file=os.fspath(seen.file), changes=told))
    elif changes:
        options.echo(f"  {seen.file}: {plural(len(wanted), 'image')} accepted")
    else:
        options.echo(f"  {seen.file} has what runs: nothing to change")
    return 0


def _change(change: Change) -> str:
    if not change.before:
        return f"  + {change.image}  {change.after}"
    if not change.after:
        return f"  - {change.image}  {change.before}"
    return f"  ~ {change.image}  {change.before} -> {change.after}"


def _lines(seen: Seen, accept: str) -> Iterator[str]:
    for one in seen.images:
        sign = "✗" if one.image in seen.torn else _sign(one)
        yield f"  {sign} {one.image}"
        yield f"      {one.identity or 'not known'}  on {fold(one.hosts)}; held by: {one.held}"
    if seen.lock is None:
        yield f"  {seen.file.name}: none yet. Once you have compared them: {accept}"


def _sign(one: RunningImage) -> str:
    signs = {Held.DIFFERS: "✗", Held.UNKNOWN: "?", Held.NOTHING: "·"}
    return signs.get(one.held, "✓")


def _document(seen: Seen) -> Images:
    lock = os.fspath(seen.file) if seen.lock else None
    return Images(site=seen.site, lock=lock, images=seen.images)
