"""appliance report"""

import errno
from collections.abc import Iterator
from pathlib import Path

import click

from appliance.actions import report as action
from appliance.actions import verify
from appliance.actions.opening import runs_of
from appliance.cli import options, spoken
from appliance.cli.files import InputFile, write
from appliance.cli.tables import print_tables
from appliance.errors import ApplianceError, ConfigError
from appliance.report import changes
from appliance.report.console import run_summary
from appliance.report.html import render
from appliance.report.wording import acceptance_words
from appliance.text import plural


@click.command()
@click.argument("words", nargs=-1, metavar="[verify ARCHIVE]")
@options.target_options
@click.option("--run", metavar="ID", help="Which run; default: the last one.")
@click.option(
    "--format",
    "shape",
    type=click.Choice(["text", "json", "html"]),
    default="text",
    show_default=True,
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write there instead of printing."
)
@click.option("--list", "listed", is_flag=True, help="List the runs that left a report.")
@click.option(
    "--allowed-signers",
    type=InputFile(),
    metavar="FILE",
    help="With verify: whose signatures count, as ssh-keygen(1) describes the file.",
)
def report(
    words: tuple[str, ...],
    inventory: Path | None,
    profile: str | None,
    run: str | None,
    shape: str,
    output: Path | None,
    listed: bool,
    allowed_signers: Path | None,
) -> int:
    """Show the last run, or write its report. As JSON, or as one self-contained HTML page.

    With verify: inspects the archive of a hand-over, offline: every octet, who signed it, and with --inventory whether it
    is of that site as it is declared now and as its hosts answered last.

    \b
    The last run as a page:  appliance report --format html -o report.html --inventory mysite
    A hand-over:             appliance report verify handover.tar --allowed-signers signers --inventory mysite

    Exit: that of the run's verdict. With verify: 0 as handed over, signed, of this site; 1 not; 2 no hand-over; 3 not
    signed, or nobody said whose signature counts.
    """
    if words:
        return _verify(words, inventory, profile, allowed_signers)
    if allowed_signers:
        raise click.UsageError("--allowed-signers goes with: appliance report verify ARCHIVE")
    folder = runs_of(options.target(inventory, profile))
    if listed:
        for path in action.runs(folder):
            try:
                record = action.load(folder, path.name).record
            except ApplianceError as error:
                click.echo(f"{path.name}  {error.message}")
                continue
            click.echo(
                f"{path.name}  {record.verb:<9} {record.verdict.value:<10} {path}/report.html"
            )
        return 0
    kept = action.load(folder, run)
    if shape == "text" and output is None:
        console = options.console()
        run_summary(console, spoken.advice(kept.record), str(kept.folder / "report.html"))
        print_tables(console, kept.record.tables)
        return kept.record.verdict.exit_code
    record = spoken.advice_elsewhere(kept.record)
    text = render(record) if shape == "html" else record.model_dump_json(indent=1)
    if output:
        try:
            write(output, text)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            raise ConfigError(
                f"{output} cannot be written ({error.strerror})", "name a file in a folder you own"
            ) from error
        click.echo(
            f"{output}: {shape if shape != 'text' else 'json'} report of run {kept.record.run}"
        )
    else:
        click.echo(text)
    return kept.record.verdict.exit_code


def _verify(
    words: tuple[str, ...], inventory: Path | None, profile: str | None, allowed: Path | None
) -> int:
    if words[0] != "verify" or len(words) != 2:
        raise click.UsageError("a hand-over is verified so: appliance report verify ARCHIVE")
    target = options.target(inventory, profile) if inventory else None
    found = verify.verify(Path(words[1]), allowed, target, options.quiet())
    for line in _inspected(words[1], found):
        options.echo(line)
    return found.exit_code


def _inspected(name: str, found: verify.Inspection) -> Iterator[str]:
    word = {0: "AS HANDED OVER", 1: "NOT AS HANDED OVER", 3: "NOT VERIFIED"}[found.exit_code]
    if not found.problems and found.differences:
        word = "OF ANOTHER STATE OF THE SITE"
    yield f"  {word}: {name}, {plural(found.files, 'file')}"
    different = changes.lines(found.differences)
    for mark, lines in (("✗", found.problems), ("✗", different), ("?", found.doubts)):
        yield from (f"    {mark} {line}" for line in lines)
    if found.signer and not found.problems:
        yield f"    signed by {found.signer}"
    if found.answered and not found.problems:
        yield f"    compared with what its hosts answered, the longest ago on {found.answered:%Y-%m-%d %H:%M %Z}"
    if found.record and not found.problems:
        accepted = found.record.acceptance
        said = acceptance_words(accepted)[0] if accepted else "not judged"
        yield (
            f"    site {found.record.site}, run {found.record.run} of {found.record.finished:%Y-%m-%d %H:%M %Z},"
            f" accepted: {said}"
        )
