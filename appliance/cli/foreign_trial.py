"""appliance validate --foreign FILE: adds the audit of another program to the site's record."""

from pathlib import Path

from appliance.actions.acceptance import foreign_audit
from appliance.actions.sites.opening import Target
from appliance.cli import options
from appliance.cli.tables import print_tables
from appliance.report.documents import ForeignAudit


def enter(target: Target, file: Path, as_json: bool) -> int:
    """0 if the audit was added, whatever its result."""
    found = foreign_audit.enter(target, file, options.quiet())
    if as_json:
        options.echo_json(ForeignAudit(site=found.site, run=found.run, table=found.table))
        return 0
    options.echo(f"  Added to the record of site {found.site}: {found.counts}.")
    options.echo("  The result of another program closes no gate. The next report shows it.")
    print_tables(options.console(), (found.table,))
    return 0
