"""appliance site migrate"""

from difflib import unified_diff
from pathlib import Path

import click

from appliance.actions.profiles.limit_bounds import check_ids
from appliance.config.load import LoadedSite, load_site, site_file
from appliance.config.migrate import NEWEST, migration
from appliance.config.site_edit import replace_file


@click.group()
def site() -> None:
    """Migrate the file of a site."""


@site.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("-y", "--yes", is_flag=True, help="Write without asking.")
def migrate(folder: Path, yes: bool) -> int:
    """Bring site.yml to the newest version. Shows the difference and asks; the meaning stays the same. Contacts nothing.

    Exit: 0 written, or already of that version; 1 declined; 2 refused.
    """
    file = site_file(folder)
    with migration(file, _load) as (text, new_text, new):
        if text == new_text:
            click.echo(f"{file} already has version {NEWEST}.")
            return 0
        old, now = text.splitlines(keepends=True), new_text.splitlines(keepends=True)
        click.echo("".join(unified_diff(old, now, str(file), str(file))), nl=False)
        if not (yes or click.confirm(f"\nWrite {file}?", default=False)):
            click.echo("Nothing was changed.")
            return 1
        replace_file(new, file.resolve())
    click.echo(f"{file} now has version {NEWEST}.")
    return 0


def _load(file: Path) -> LoadedSite:
    return load_site(file, check_ids=check_ids())
