"""appliance discover"""

from pathlib import Path

import click

from appliance.actions.bmc import discover as action
from appliance.cli import options, spoken
from appliance.models.bmc import BmcFacts, DeviceKind
from appliance.models.result import overall
from appliance.report import documents
from appliance.report.console import health_view
from appliance.report.findings import findings
from appliance.text import plural


@click.command()
@options.target_options
@options.host_option
@options.json_option("Print facts and results as one JSON object.")
@click.option(
    "--all", "everything", is_flag=True, help="Also list optional values that were not assessed."
)
@click.option("--report", "keep", is_flag=True, help="Keep the result as a report, HTML and JSON.")
def discover(
    inventory: Path | None,
    profile: str | None,
    hosts: tuple[str, ...],
    as_json: bool,
    everything: bool,
    keep: bool,
) -> int:
    """Read the hardware inventory from the BMCs. Uses Redfish; the hosts need no operating system. Changes nothing.

    Compares the inventory with the profile and the site. Exit: 0 good, 1 failed, 2 unusable input, 3 incomplete.
    """
    seen = action.discover(options.target(inventory, profile), options.quiet(), hosts, report=keep)
    verdict = overall(seen.results)
    if as_json:
        document = documents.Machines(
            site=seen.site,
            verdict=verdict,
            seconds=round(seen.seconds, 3),
            machines=seen.facts,
            results=seen.results,
            report=seen.report or None,
        )
        options.echo_json(document)
        return verdict.exit_code
    for facts in seen.facts.values():
        options.echo(_line(facts))
    click.echo()
    health_view(
        options.console(),
        seen.site,
        spoken.advice(seen.results),
        findings(spoken.advice(seen.results)),
        hosts=len(seen.facts),
        seconds=seen.seconds,
        everything=everything,
    )
    if keep:
        click.echo(f"  Report: {seen.report}")
    return verdict.exit_code


def _line(facts: BmcFacts) -> str:
    machine = facts.machine
    memory = sum(m.capacity_mib or 0 for m in facts.modules) >> 10 or int(machine.memory_gib or 0)
    parts = [
        " ".join(filter(None, (machine.maker, machine.model))) or "no model reported",
        f"serial {machine.serial}" if machine.serial else "",
        f"power {machine.power}" if machine.power else "",
        _count(len(facts.processors) or machine.processors, "socket"),
        f"{memory or '?'} GiB",
        _count(len(facts.of_kind(DeviceKind.GPU)), "GPU"),
        _count(len(facts.drives), "drive"),
        f"BIOS {machine.bios}" if machine.bios else "",
    ]
    return f"  {facts.host:<16} {' · '.join(filter(None, parts))}"


def _count(found: int | None, noun: str) -> str:
    """ "None found" looks the same as "none requested"."""
    return plural(found, noun) if found else f"? {noun}s"
