"""Configures the ssh that Ansible starts: our own configuration file, and the site's files under fixed names."""

import re
import shlex
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from appliance.errors import ConfigError

OPTIONS = """\
StrictHostKeyChecking yes
GlobalKnownHostsFile /dev/null
UpdateHostKeys no
ServerAliveInterval 5
ServerAliveCountMax 4
"""

# Ansible looks for ControlPersist among the arguments, and prefers other logins unless configured there.
ARGUMENTS = (
    "-o",
    "ControlMaster=auto",
    "-o",
    "ControlPersist=120s",
    "-o",
    "PreferredAuthentications=publickey",
)

UNQUOTABLE = re.compile(r'["%\\{\x00-\x1f\x7f]')
"""What ssh_config(5) changes within a quoted path, or a template of Ansible begins with."""
BESIDE = ("", ".pub", "-cert.pub")
"""Suffixes of a key's files: the key itself, its public half, and a certificate for it."""


def arguments(
    folder: Path, known_hosts: Path, names: Iterable[str], private_key: Path | None
) -> str:
    """Writes ``ssh_config`` into a play's private folder; returns ANSIBLE_SSH_ARGS, which Ansible splits like a shell.

    ``names``: the hosts, by their names in known_hosts. ssh gets only their plain keys, as every other connection: it would
    also apply patterns and CAs of the file. ssh_config(5) splits paths at spaces, expands ``%``, ``~`` and ``${}`` in
    them, and cannot contain a double quote. So it never sees a path of the site: the key's files are linked under names
    of ours. Both paths must be absolute.
    """
    pinned = folder / "known_hosts"
    pinned.write_text(_pinned(known_hosts, names), encoding="ascii")
    lines = [OPTIONS, f'UserKnownHostsFile "{pinned}"\n']
    if private_key:
        for ending in BESIDE:
            belongs = private_key.with_name(private_key.name + ending)
            if belongs.exists():
                _linked(folder / f"key{ending}", belongs)
        lines += [f'IdentityFile "{folder / "key"}"\n', "IdentitiesOnly yes\n"]
    file = folder / "ssh_config"
    file.write_text("".join(lines), encoding="utf-8")
    return shlex.join(("-F", str(file), *ARGUMENTS))


def options_of_others(known_hosts: Path) -> str:
    """The same rules for hosts' keys as ssh arguments of another program's Ansible, which splits them like a shell.

    The caller's own configuration is not read, as in a deployment. ``known_hosts`` must be absolute. Raises ConfigError if ssh
    would read another path.
    """
    rules = [line.replace(" ", "=", 1) for line in OPTIONS.splitlines()]
    rules.append(f'UserKnownHostsFile="{plain_path(known_hosts)}"')
    words = [word for rule in rules for word in ("-o", rule)]
    return shlex.join(("-F", "/dev/null", *words, *ARGUMENTS[-2:]))


def plain_path(path: Path) -> str:
    """The path, if ssh reads it as it is within quotes. Raises ConfigError otherwise."""
    if found := UNQUOTABLE.search(str(path)):
        raise ConfigError(
            f"{path} contains {found[0]!r}, which ssh_config and Ansible cannot express",
            "rename that file or folder",
        )
    return str(path)


def _pinned(known_hosts: Path, names: Iterable[str]) -> str:
    """Lines of known_hosts; none if the file cannot be read, so that ssh refuses every host."""
    # paramiko is slow to import, and reads the file; a verb that runs plays has imported it by then.
    from appliance.adapters.known_hosts import KnownHosts, UnreadableKey

    known = KnownHosts(known_hosts)
    with suppress(OSError, UnreadableKey):
        return "".join(
            f"{name} {key.get_name()} {key.get_base64()}\n"
            for name in dict.fromkeys(names)
            for key in known.keys(name)
        )
    return ""


def _linked(link: Path, target: Path) -> Path:
    link.symlink_to(target)
    return link
