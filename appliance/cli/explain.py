"""appliance explain"""

import click

from appliance.acceptance import PROMISES
from appliance.benchmarks import BENCHMARKS
from appliance.checks.causes import NAMED_CHECK
from appliance.checks.check import AnyCheck, measured_against
from appliance.checks.extra_results import BESIDE, of_stage
from appliance.config.rules.base import near
from appliance.errors import ConfigError
from appliance.stages import NAMES
from appliance.stages.catalog import CAUSES, EVERY_CHECK
from appliance.stages.renamed import current


@click.command()
@click.argument("check", required=False)
def explain(check: str | None) -> int:
    """Explain a check, and what usually fails it. Then its limit and its causes. Without CHECK, list all checks."""
    known = {c.id: (c.title, c.explain) for c in EVERY_CHECK}
    known |= {i: (b.title, b.explain) for b in BENCHMARKS for i in b.checks}
    known |= {promise.id: (promise.title, promise.explain) for promise in PROMISES}
    others = (*BESIDE, *(of_stage(name) for name in NAMES))
    known |= {other.id: (other.title, other.explain) for other in others}
    if check is None:
        for name, (title, _) in known.items():
            click.echo(f"  {name:<22} {title}")
        return 0
    check = current(check)
    if check not in known:
        raise ConfigError(
            f"unknown check: {check}", near(check, known, "list the checks: appliance explain")
        )
    title, text = known[check]
    click.echo(f"{check}: {title}\n\n{text}")
    for one in EVERY_CHECK:
        if one.id == check:
            _more(one)
    for benchmark in BENCHMARKS:
        if check in benchmark.bounds:
            click.echo(f"\nlimit: limit {check}: {benchmark.bounds[check]}")
    return 0


def _more(check: AnyCheck) -> None:
    """The limit of the check, and the checks whose failures explain its own."""
    if against := measured_against(check):
        click.echo(f"\nlimit: {against}")
    if causes := CAUSES.get(check.id):
        click.echo("\nExplained by a failure of:")
    for cause in causes or ():
        name = "checks that it lists" if cause.check == NAMED_CHECK else cause.check
        click.echo(f"  {name:<22} {cause.because}")
