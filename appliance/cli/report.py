"""appliance report"""

import errno
from collections.abc import Iterator
from pathlib import Path

import click

from appliance.actions.acceptance import verify
from appliance.actions.sites import reports as action
from appliance.actions.sites.opening import runs_of
from appliance.cli import options, spoken
from appliance.cli.files import InputFile, write
from appliance.cli.outcome import DETAILS, show_record
from appliance.errors import ApplianceError, ConfigError
from appliance.report import difference_lines
from appliance.report.formatting import acceptance_words
from appliance.report.html import render
from appliance.text import plural


@click.command()
@click.argument("words", nargs=-1, metavar="[verify ARCHIVE]")
@options.target_options
@click.option("--run", metavar="ID", help="Run to show; default: the last one.")
@click.option(
    "--format",
    "shape",
    type=click.Choice(["text", "json", "html"]),
    default="text",
    show_default=True,
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write to this file instead of printing.",
)
@DETAILS
@click.option("--list", "listed", is_flag=True, help="List the runs that have a report.")
@click.option(
    "--allowed-signers",
    type=InputFile(),
    metavar="FILE",
    help="With verify: the accepted signers, in the format of ssh-keygen(1).",
)
def report(
    words: tuple[str, ...],
    inventory: Path | None,
    profile: str | None,
    run: str | None,
    shape: str,
    output: Path | None,
    details: bool,
    listed: bool,
    allowed_signers: Path | None,
) -> int:
    """Show the last run, or write its report. As text, JSON, or one self-contained HTML page.

    With verify: check the archive of a hand-over offline, every byte and the signature. With --site, also check that
    it belongs to that site, as declared now and as its hosts last answered.

    \b
    The last run as a page:  appliance report --format html -o report.html --site mysite
    A hand-over:             appliance report verify handover.tar --allowed-signers signers --site mysite

    Exit: that of the run's verdict. With verify: 0 unchanged, signed, of this site; 1 not; 2 not a hand-over; 3 not
    signed, or --allowed-signers is missing.
    """
    if words:
        return _verify(words, inventory, profile, allowed_signers)
    if allowed_signers:
        raise click.UsageError("--allowed-signers needs: appliance report verify ARCHIVE")
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
        page = str(kept.folder / "report.html")
        return show_record(kept.record, page, "table", details=details)
    record = spoken.advice_elsewhere(kept.record)
    text = render(record) if shape == "html" else record.model_dump_json(indent=1)
    if output:
        try:
            write(output, text)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            raise ConfigError(
                f"{output} cannot be written ({error.strerror})",
                "name a file in a folder that you own",
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
        raise click.UsageError("to verify a hand-over: appliance report verify ARCHIVE")
    target = options.target(inventory, profile) if inventory else None
    found = verify.verify(Path(words[1]), allowed, target, options.quiet())
    for line in _inspected(words[1], found):
        options.echo(line)
    return found.exit_code


def _inspected(name: str, found: verify.Inspection) -> Iterator[str]:
    word = {0: "UNCHANGED SINCE HAND-OVER", 1: "CHANGED SINCE HAND-OVER", 3: "NOT VERIFIED"}[
        found.exit_code
    ]
    if not found.problems and found.differences:
        word = "THE SITE HAS CHANGED SINCE"
    yield f"  {word}: {name}, {plural(found.files, 'file')}"
    different = difference_lines.lines(found.differences)
    for mark, lines in (("✗", found.problems), ("✗", different), ("?", found.doubts)):
        yield from (f"    {mark} {line}" for line in lines)
    if found.signer and not found.problems:
        yield f"    signed by {found.signer}"
    if found.answered and not found.problems:
        yield f"    compared with the last answers of its hosts, the oldest of {found.answered:%Y-%m-%d %H:%M %Z}"
    if found.record and not found.problems:
        accepted = found.record.acceptance
        said = acceptance_words(accepted)[0] if accepted else "not judged"
        yield (
            f"    site {found.record.site}, run {found.record.run} of {found.record.finished:%Y-%m-%d %H:%M %Z},"
            f" accepted: {said}"
        )
