"""All verbs, with what each does in a few words; the modules of a verb are read when it is asked for."""

from collections.abc import Iterator, MutableMapping
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from appliance.errors import Unreadable

VERBS = {
    "init": "Write a new site into DIR.",
    "trust": "Pin the hosts' SSH keys.",
    "discover": "Ask the management controllers what their machines are.",
    "power": "Switch machines by their management controllers.",
    "bios": "BIOS settings, as the profile wants them.",
    "provision": "Give bare machines their system.",
    "plan": "Show what a deployment would do, and why.",
    "deploy": "Bring the site to its profile, prove it, and write the report.",
    "mig": "GPUs in parts (MIG).",
    "node": "GPU hosts and their owners.",
    "validate": "Run the cluster's benchmarks and judge what they measure.",
    "accept": "Take a site over: every level in order, then the hand-over.",
    "baseline": "The hosts as they were taken over.",
    "waive": "Accept a finding for a time.",
    "health": "Judge the site now: what is wrong, why, and what to do.",
    "fabric": "The fabric as discovery finds it now; reads hosts only.",
    "report": "Show the last run, or write its report.",
    "explain": "Say what a check looks at, and what usually trips it.",
    "profile": "Hardware classes.",
    "kubeconfig": "Get a kubeconfig for the site's cluster, for days.",
    "etcd": "Backups of the cluster's state, and room for it.",
    "images": "Images of the site's cluster.",
    "queue": "Departments, projects and their queues on Kubernetes.",
    "lab": "A rack of containers or virtual machines on this machine.",
    "completion": "Print the shell's completion script.",
}
"""By name, which is that of its module, too."""


_LISTED = click.Group(commands=[click.Command(name, help=does) for name, does in VERBS.items()])


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while a verb was read: it has not begun."""


class Commands(MutableMapping[str, click.Command]):
    """Commands by name. To look one up is to read it; Interrupted or Unreadable where that does not come to its end."""

    def __init__(self) -> None:
        self._read: dict[str, click.Command | None] = dict.fromkeys(VERBS)

    def __getitem__(self, name: str) -> click.Command:
        command = self._read[name]
        if command is None:
            command = self._read[name] = _command(name)
        return command

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._read[name] = command

    def __delitem__(self, name: str) -> None:
        del self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._read

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)


class Verbs(click.Group):
    """The program: it lists its verbs, and completes their names, without reading them."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """None is a name no verb has; a KeyError of a verb's modules is not taken for that."""
        if cmd_name not in self.commands:
            return None
        return self.commands[cmd_name]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of verbs."""
        _LISTED.format_commands(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Verbs, and the program's own options."""
        verbs = [
            CompletionItem(name, help=_LISTED.commands[name].get_short_help_str())
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return verbs + click.Command.shell_complete(self, ctx, incomplete)


def _command(name: str) -> click.Command:
    try:
        found: object = getattr(import_module(f"appliance.cli.{name}"), name)
    except KeyboardInterrupt as error:
        raise Interrupted from error
    except (ImportError, OSError, MemoryError) as error:
        raise Unreadable(error) from error
    assert isinstance(found, click.Command)
    return found
