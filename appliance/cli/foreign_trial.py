"""appliance validate --foreign FILE: an audit by another program, entered into the site's record."""

from pathlib import Path

from appliance.actions import foreign_audit
from appliance.actions.opening import Target
from appliance.cli import options
from appliance.cli.tables import print_tables
from appliance.report.documents import ForeignAudit


def enter(target: Target, file: Path, as_json: bool) -> int:
    """0: it was entered, whatever it says."""
    found = foreign_audit.enter(target, file, options.quiet())
    if as_json:
        options.echo_json(ForeignAudit(site=found.site, run=found.run, table=found.table))
        return 0
    print_tables(options.console(), (found.table,))
    options.echo(f"  Entered into the record of site {found.site}: {found.counts}.")
    options.echo("  It is another program's word and closes no gate. The next report shows it.")
    return 0
