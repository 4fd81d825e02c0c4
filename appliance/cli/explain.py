"""appliance explain"""

import click

from appliance.actions.monitoring.explain import explained, known


@click.command()
@click.argument("check", required=False)
def explain(check: str | None) -> int:
    """Explain a check, and what usually fails it. Then its limit and its causes. Without CHECK, list all checks."""
    if check is not None:
        click.echo(explained(check))
        return 0
    for name, (title, _) in known().items():
        click.echo(f"  {name:<22} {title}")
    return 0
