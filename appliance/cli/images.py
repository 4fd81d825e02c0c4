"""appliance images show, lock"""

import os
from collections.abc import Iterator
from pathlib import Path

import click

from appliance.actions.kubernetes import images as action
from appliance.actions.kubernetes.images import ImagesFound, LockChange
from appliance.cli import options
from appliance.models.images import Held, RunningImage
from appliance.report.documents import ImageChange, Images, ImagesLocked
from appliance.report.formatting import fold
from appliance.text import plural


@click.group()
def images() -> None:
    """Show and lock the container images of the cluster. By digest.

    \b
    Show what runs, and what was accepted:   appliance images show --site mysite
    Accept it after comparing:               appliance images lock --site mysite
    """


@images.command()
@options.target_options
@options.json_option("Print the images as one JSON object.")
def show(inventory: Path | None, profile: str | None, as_json: bool) -> int:
    """Show the digest behind each image name. As reported by the status of the pods; changes nothing.

    Covers kube-system and the namespaces of stages scheduler and workloads. Exit: 0 no difference, 1 a difference or no
    answer, 2 unusable input.
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
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@options.json_option("Print the changes as one JSON object.")
def lock(inventory: Path | None, profile: str | None, yes: bool, as_json: bool) -> int:
    """Accept the running images. Writes images.lock to the site's folder; health and deploy compare with it.

    Compare the digests first: the program cannot know which images were intended. If an image differs between hosts,
    nothing is written. Exit: 0 locked as running, 1 refused or declined, 2 unusable input.
    """
    options.require_answer(yes, as_json)
    seen = action.look(options.target(inventory, profile), options.quiet())
    wanted = action.lock_content(seen)
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
        options.echo(f"  {seen.file} matches the running images: nothing to change")
    return 0


def _change(change: LockChange) -> str:
    if not change.before:
        return f"  + {change.image}  {change.after}"
    if not change.after:
        return f"  - {change.image}  {change.before}"
    return f"  ~ {change.image}  {change.before} -> {change.after}"


def _lines(seen: ImagesFound, accept: str) -> Iterator[str]:
    for one in seen.images:
        sign = "✗" if one.image in seen.torn else _sign(one)
        yield f"  {sign} {one.image}"
        yield f"      {one.identity or 'unknown'}  on {fold(one.hosts)}; pinned by: {one.held}"
    if seen.lock is None:
        yield f"  {seen.file.name} does not exist yet. After comparing, create it: {accept}"


def _sign(one: RunningImage) -> str:
    signs = {Held.DIFFERS: "✗", Held.UNKNOWN: "?", Held.NOTHING: "·"}
    return signs.get(one.held, "✓")


def _document(seen: ImagesFound) -> Images:
    lock = os.fspath(seen.file) if seen.lock else None
    return Images(site=seen.site, lock=lock, images=seen.images)
