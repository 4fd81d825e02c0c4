"""All verbs with a short description; the modules of a verb are imported when it is called."""

from collections.abc import Iterator, MutableMapping
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from appliance.errors import LabMissing, Unreadable

VERBS = {
    "init": "Write a new site into DIR.",
    "trust": "Pin the hosts' SSH keys.",
    "discover": "Read the hardware inventory from the BMCs.",
    "power": "Switch machines on and off through their BMCs.",
    "bios": "Compare and set BIOS settings, and update firmware.",
    "provision": "Install the operating system on bare machines.",
    "plan": "Show what a deployment would do, and why.",
    "rehearse": "Rehearse a deployment on a virtual rack of this machine.",
    "deploy": "Deploy the site, verify it, and write the report.",
    "mig": "Partition GPUs (MIG).",
    "node": "Drain and return hosts; show or change their scheduler.",
    "update": "Update the distribution's packages in waves, and go back.",
    "validate": "Run the cluster's benchmarks and judge their results.",
    "accept": "Accept a site: run all levels, then write the hand-over.",
    "baseline": "Show or accept the recorded state of the hosts.",
    "waive": "Waive a finding until a date.",
    "health": "Check the site now: show faults, causes and remedies.",
    "console": "Show the site full screen: state, findings, hosts.",
    "support-bundle": "Collect logs, configuration and facts into one archive.",
    "fabric": "Show the fabric as discovered now.",
    "report": "Show the last run, or write its report.",
    "history": "Show who changed the site, and when.",
    "explain": "Explain a check, and what usually fails it.",
    "profile": "List, show, check and capture hardware classes.",
    "site": "Migrate the file of a site.",
    "inventory": "Print the hosts as JSON for Ansible or Prometheus.",
    "kubeconfig": "Get a kubeconfig for the site's cluster, valid for days.",
    "backup": "List, create, verify and restore backups off the hosts.",
    "bundle": "Download all that a site needs, for halls without Internet.",
    "etcd": "List, save and restore backups of etcd; free space.",
    "images": "Show and lock the container images of the cluster.",
    "queue": "Show and apply the queues of departments and projects.",
    "lab": "Run a virtual rack of containers or VMs on this machine.",
    "completion": "Print the shell's completion script.",
}
"""By name, which is also the name of its module; there "_" stands for "-"."""


_LISTED = click.Group(commands=[click.Command(name, help=does) for name, does in VERBS.items()])


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while a verb was imported: it has not begun."""


class Commands(MutableMapping[str, click.Command]):
    """Commands by name, imported on access. Raises Interrupted or Unreadable if the import fails."""

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
    """The program: lists its verbs and completes their names without importing them."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """None for an unknown verb; a KeyError inside a verb's modules is not mistaken for one."""
        if cmd_name not in self.commands:
            return None
        return self.commands[cmd_name]

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Not listed, so that all verbs fit on a screen."""
        found = super().get_help_option(ctx)
        if found:
            found.hidden = True
        return found

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
        module = name.replace("-", "_")
        found: object = getattr(import_module(f"appliance.cli.{module}"), module)
    except KeyboardInterrupt as error:
        raise Interrupted from error
    except (ImportError, OSError, MemoryError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name in LabMissing.MODULES:
            raise LabMissing from error
        raise Unreadable(error) from error
    assert isinstance(found, click.Command)
    return found
