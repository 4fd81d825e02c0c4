"""OpenSSH to the rack's hosts, with their pinned keys and nothing of the user's own configuration."""

import shlex
import socket
import time
from collections.abc import Sequence

from appliance.adapters.process import Completed, run
from appliance.lab.spec import Rack, RackHost


def command(rack: Rack, host: RackHost, argv: Sequence[str] = ()) -> tuple[str, ...]:
    """The ssh command line for a shell on ``host``, or for one command there, as root."""
    site = rack.access_dir
    return (
        "ssh",
        "-F",
        "none",
        "-i",
        str(site / "id_ed25519"),
        "-o",
        "IdentitiesOnly=yes",
        "-o",
        f"UserKnownHostsFile={site / 'known_hosts'}",
        "-o",
        "GlobalKnownHostsFile=/dev/null",
        "-o",
        "StrictHostKeyChecking=yes",
        "-o",
        "ConnectTimeout=5",
        "-o",
        "LogLevel=ERROR",
        f"{rack.spec.user if rack.spec.plain else 'root'}@{host.address}",
        *(("--", *_as_root(rack, argv)) if argv else ()),
    )


def _as_root(rack: Rack, argv: Sequence[str]) -> Sequence[str]:
    """Plain hosts do not accept root: their account uses sudo."""
    if not rack.spec.plain:
        return argv
    return (f"sudo -n -- sh -c {shlex.quote(' '.join(argv))}",)


def remote_words(argv: Sequence[str]) -> tuple[str, ...]:
    """The user's words after "--": ssh joins words with blanks, so several words are quoted; a single one is a shell line."""
    return (shlex.join(argv),) if len(argv) > 1 else tuple(argv)


def on_host(
    rack: Rack,
    host: RackHost,
    argv: Sequence[str],
    timeout: float = 60.0,
    input: str | None = None,
) -> Completed:
    """Run one command on a host; its exit code is in the result."""
    return run(command(rack, host, argv), input=input, timeout=timeout, check=False)


def answers(host: RackHost, timeout: float = 0.3) -> bool:
    """Whether something that speaks ssh listens there."""
    try:
        with socket.create_connection((host.address, 22), timeout=timeout) as link:
            link.settimeout(timeout)
            return link.recv(4) == b"SSH-"
    except OSError:
        return False


def wait_for(hosts: Sequence[RackHost], seconds: float) -> tuple[RackHost, ...]:
    """Wait until all answer; returns those that do not."""
    deadline = time.monotonic() + seconds
    silent = tuple(hosts)
    while silent and time.monotonic() < deadline:
        silent = tuple(host for host in silent if not answers(host))
        if silent:
            time.sleep(0.1)
    return silent
