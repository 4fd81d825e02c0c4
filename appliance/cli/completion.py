"""appliance completion"""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the shell's completion script. For bash: source <(appliance completion bash)."""
    kind = get_completion_class(shell)
    assert kind is not None
    program = context.find_root().command
    click.echo(kind(program, {}, "appliance", "_APPLIANCE_COMPLETE").source())
    return 0
