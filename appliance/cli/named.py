"""The class of the commands of validate."""

import click

from appliance.cli.validate import NAMES, command_named


class Named(click.Command):
    """A command of validate: it refuses an option of another one with the name of that."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Raises UsageError."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            owners = [n for n in NAMES if _has(command_named(n), error.option_name)]
            if not owners and ctx.parent and _has(ctx.parent.command, error.option_name):
                raise click.UsageError(
                    f"{error.option_name} is given without a name", ctx
                ) from None
            if not owners:
                raise
            needed = " or ".join(owners)
            raise click.UsageError(
                f"{error.option_name} needs: appliance validate {needed}", ctx
            ) from None


def _has(command: click.Command, option: str) -> bool:
    return any(option in param.opts for param in command.params)
