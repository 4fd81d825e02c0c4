"""appliance bundle plan, fetch, verify, serve, diff"""

import time
from collections.abc import Sequence
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path

import click

from appliance.actions.sites import bundle as action
from appliance.actions.sites import bundle_needs
from appliance.airgap import manifest
from appliance.airgap.manifest import Difference, Lacking, Manifest
from appliance.airgap.serve import BundleServer
from appliance.cli import options
from appliance.cli.tables import print_tables
from appliance.models.result import Verdict
from appliance.models.run import Table
from appliance.text import plural

SHOWN = 20
PORT = 8480

os_option = click.option(
    "--os",
    "systems",
    multiple=True,
    type=click.Choice(tuple(bundle_needs.CODENAMES)),
    help="System of hosts (repeatable). Default: as the hosts last answered.",
)
FOLDER = click.Path(path_type=Path)
folder_argument = click.argument("folder", type=FOLDER, metavar="FOLDER")


@click.group()
def bundle() -> None:
    """Download all that a site needs, for halls without Internet.

    \b
    appliance bundle plan --site mysite                             show what a bundle would contain
    appliance bundle fetch --site mysite --to /media/usb/bundle     download it, on a connected machine
    appliance bundle verify /media/usb/bundle                       compare each file with its digest
    appliance bundle serve /media/usb/bundle --address 10.0.0.1     serve it to the hosts
    appliance bundle diff OLD NEW                                   show what changed
    """


def _address(context: click.Context, parameter: click.Parameter, value: str) -> IPv4Address:
    """The callback of ``--address``."""
    try:
        return IPv4Address(value)
    except AddressValueError:
        raise click.BadParameter(f'"{value}" is no IPv4 address') from None


@bundle.command()
@options.target_options
@os_option
def plan(inventory: Path | None, profile: str | None, systems: tuple[str, ...]) -> int:
    """Show what a bundle would contain. What, how many, size, and from where.

    Reads the package lists of the mirrors; writes nothing. Exit: 0 all is on offer, 1 a mirror failed, 2 unusable
    input, 3 something must come from elsewhere.
    """
    found = action.planned(options.target(inventory, profile), systems, _progress)
    rows = tuple((row.what, row.of, row.count, _size(row.bytes), row.source) for row in found.rows)
    columns = ("what", "for", "files", "size", "from")
    print_tables(
        options.console(),
        (Table(title=f"Bundle of site {found.site}", columns=columns, rows=rows),),
    )
    return _lacking(found.lacking)


@bundle.command()
@options.target_options
@os_option
@click.option("--to", "folder", type=FOLDER, required=True, metavar="DIR", help="A new folder, or a bundle.")  # fmt: skip
@click.option("--since", type=FOLDER, metavar="DIR", help="An earlier bundle, or its bundle.json: leave out its files.")  # fmt: skip
def fetch(
    inventory: Path | None,
    profile: str | None,
    systems: tuple[str, ...],
    folder: Path,
    since: Path | None,
) -> int:
    """Download a bundle, or update one. Needs a connected machine with apt and pip; no root.

    Signatures of package lists and digests of all files are checked. The same command continues an interrupted
    download. With --since, the folder contains only new files: in the hall, copy it over the earlier bundle.

    Exit: 0 complete, 1 a mirror failed, 2 unusable input, 3 complete, but something must come from elsewhere.
    """
    target = options.target(inventory, profile)
    made, digest = action.fetch(target, systems, folder, since, _progress)
    here = len(made.files) - (len(made.since.paths) if made.since else 0)
    options.echo(f"  {folder}: {plural(here, 'file')}, {_size(_here(made))}")
    if made.since:
        options.echo(f"  a delta: {plural(len(made.since.paths), 'file')} of the earlier bundle {made.since.digest[:12]} are left out")  # fmt: skip
    options.echo(f"  digest of bundle.json: {digest}")
    options.echo(f"  in the hall: appliance bundle verify {folder}, and compare this digest")
    return _lacking(made.lacking)


@bundle.command()
@folder_argument
def verify(folder: Path) -> int:
    """Compare each file of a bundle with its digest. Names missing, changed and extra files; changes nothing.

    Exit: 0 as fetched, 1 a difference or an interrupted download, 2 unusable input.
    """
    found = manifest.verify(folder)
    _show(found.differences)
    if found.differences:
        options.echo(f"  {plural(len(found.differences), 'difference')}: copy the bundle again")
        return 1
    since = found.manifest.since
    left_out = len(since.paths) if since and found.is_delta else 0
    here = len(found.manifest.files) - left_out
    size = _here(found.manifest) if left_out else found.manifest.bytes
    options.echo(f"  {plural(here, 'file')}, {_size(size)}, as fetched on {found.manifest.made}")
    if since and left_out:
        options.echo(f"  a delta: copy it over the bundle {since.digest[:12]}, then verify that")
    options.echo(f"  digest of bundle.json: {found.digest}")
    return 0


@bundle.command()
@folder_argument
@click.option("--address", required=True, callback=_address, metavar="IP", help="Address of this machine that hosts reach.")  # fmt: skip
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=PORT,
    show_default=True,
    help="Port; above 1023, no root is needed.",
)
def serve(folder: Path, address: IPv4Address, port: int) -> int:
    """Serve a bundle to the hosts by HTTP until Ctrl-C. Read-only; verifies it first.

    Only the files of its manifest are served, without listings. Requests for other files are shown.
    Exit: 0 ended by Ctrl-C, 1 the bundle is not as fetched, 2 unusable input.
    """
    found = manifest.verify(folder)
    if found.differences or found.is_delta:
        _show(found.differences)
        why = "is a delta: copy it over the earlier bundle" if found.is_delta else "differs from its manifest: copy it again"  # fmt: skip
        options.echo(f"  {folder} {why}; nothing is served", err=True)
        return 1
    with BundleServer(folder, found.manifest, address, port, _refused) as server:
        options.echo(f"  serving {plural(len(found.manifest.files), 'file')}, {_size(found.manifest.bytes)}, of site {found.manifest.site}")  # fmt: skip
        options.echo(f"  in site.yml:  repositories: {{bundle: http://{address}:{port}}}")
        options.echo("  Ctrl-C ends it")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            options.echo(f"  {plural(server.sent, 'file was', 'files were')} sent")
    return 0


@bundle.command()
@click.argument("old", type=FOLDER, metavar="OLD")
@click.argument("new", type=FOLDER, metavar="NEW")
def diff(old: Path, new: Path) -> int:
    """Show what changed between two bundles, or their bundle.json.

    Exit: 0 compared, 2 unusable input.
    """
    before, after = _versions(manifest.read(old)[0]), _versions(manifest.read(new)[0])
    count = 0
    for key in sorted({*before, *after}):
        was, now = before.get(key, {}), after.get(key, {})
        if was == now:
            continue
        count += 1
        label = " ".join(filter(None, key))
        if not was:
            options.echo(f"  + {label} {', '.join(now)}")
        elif not now:
            options.echo(f"  - {label} {', '.join(was)}")
        elif list(was) == list(now):
            options.echo(f"  ~ {label} {', '.join(now)}: other content")
        else:
            options.echo(f"  ~ {label} {', '.join(was)} -> {', '.join(now)}")
    options.echo(f"  {plural(count, 'difference')}")
    return 0


def _versions(found: Manifest) -> dict[tuple[str, str, str], dict[str, str]]:
    """By kind, name and system: digests by version."""
    versions: dict[tuple[str, str, str], dict[str, str]] = {}
    for file in sorted(found.files, key=lambda one: one.path):
        name = file.name if file.version else file.path
        known = versions.setdefault((file.kind, name, file.of), {})
        known[file.version] = known.get(file.version, "") + file.sha256
    return versions


def _progress(text: str) -> None:
    click.echo(f"  {time.strftime('%H:%M:%S')}  {text}", err=True)


def _refused(client: str, path: str) -> None:
    click.echo(f"  {client} asked for {path}, which is not in the bundle", err=True)


def _show(differences: Sequence[Difference]) -> None:
    for one in differences[:SHOWN]:
        options.echo(f"  {one.what:<8} {one.path}{f': {one.why}' if one.why else ''}")
    if len(differences) > SHOWN:
        options.echo(f"  and {len(differences) - SHOWN} more")


def _lacking(found: Sequence[Lacking]) -> int:
    for one in dict.fromkeys(found):
        options.echo(f"  not in the bundle: {one.kind} {one.name}: {one.why}")
    return Verdict.INCOMPLETE.exit_code if found else 0


def _here(found: Manifest) -> int:
    left_out = set(found.since.paths) if found.since else set()
    return sum(file.bytes for file in found.files if file.path not in left_out)


def _size(size: int | None) -> str:
    return "?" if size is None else f"{size / 1e6:.1f} MB"
