"""appliance explain"""

import click

from appliance.acceptance import PROMISES
from appliance.benchmarks import BENCHMARKS
from appliance.config.rules.base import near
from appliance.errors import ConfigError
from appliance.stages.catalog import EVERY_CHECK


@click.command()
@click.argument("check", required=False)
def explain(check: str | None) -> int:
    """Say what a check looks at, and what usually trips it. Without a name: all checks."""
    known = {c.id: (c.title, c.explain) for c in EVERY_CHECK}
    known |= {i: (b.title, b.explain) for b in BENCHMARKS for i in b.checks}
    known |= {promise.id: (promise.title, promise.explain) for promise in PROMISES}
    if check is None:
        for name, (title, _) in known.items():
            click.echo(f"  {name:<22} {title}")
        return 0
    if check not in known:
        raise ConfigError(
            f"no check is called {check}", near(check, known, "list them: appliance explain")
        )
    title, text = known[check]
    click.echo(f"{check}: {title}\n\n{text}")
    return 0
