"""What everybody uses to ask many hosts: pdsh and clush over OpenSSH, with what the program itself asks."""

import shlex
from pathlib import Path

from appliance.engine.look.gather import PYTHON
from appliance.probe.bundle import command
from benchmarks.scale_network import NO_INPUT
from benchmarks.scale_site import address
from benchmarks.timing import Cost, alone

FAN_OUT = 32
"""As many hosts at a time as the program itself asks (appliance.engine.look.gather)."""


def pdsh(site: Path, keys: Path, hosts: int, out: Path) -> Cost:
    """Asks the first hosts of a site."""
    options = {"PDSH_SSH_ARGS_APPEND": shlex.join(_ssh(site, keys))}
    names = f"^{_names(site, hosts)}"
    argv = ("pdsh", "-R", "ssh", "-S", "-l", "root", "-f", str(FAN_OUT), "-w", names, _probe())
    return alone(argv, out, env=options)


def clush(site: Path, keys: Path, hosts: int, out: Path) -> Cost:
    """Asks the first hosts of a site."""
    options = shlex.join(_ssh(site, keys))
    argv = ("clush", "-n", "-S", "-l", "root", "-f", str(FAN_OUT), "-o", options)
    return alone((*argv, f"--hostfile={_names(site, hosts)}", _probe()), out)


def _ssh(site: Path, keys: Path) -> tuple[str, ...]:
    options = {
        "IdentitiesOnly": "yes",
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": site / "known_hosts",
        "GlobalKnownHostsFile": "/dev/null",
    }
    given = (f"-o{name}={value}" for name, value in options.items())
    return ("-Fnone", f"-i{keys / 'id'}", *given)


def _names(site: Path, hosts: int) -> Path:
    file = site / "addresses"
    file.write_text("".join(f"{address(n)}\n" for n in range(hosts)))
    return file


def _probe() -> str:
    """The line the program itself has a host run."""
    return f"{shlex.join(command(PYTHON))} {NO_INPUT}"
