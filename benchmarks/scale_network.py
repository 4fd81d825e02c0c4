"""A network of this process alone, in which one real sshd stands for all hosts: nothing of it outlives the process."""

import ctypes
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.adapters.process import run, spawn
from appliance.errors import ApplianceError
from appliance.lab import processes
from benchmarks.scale_site import ANSWERS, address

CLONE_NEWNET = 0x40000000
LIVING, DEAD = "10.99.0.0/16", "10.98.0.0/16"
OWN = "10.99.255.254"
SEPARATION = Path("/run/sshd")
HANGS = "hangs"
PACKAGES = {
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "pdsh": "pdsh",
    "clush": "clustershell",
}

# The host is told by the address it was called at; like the real probe it reads its input to the end first.
# pdsh never ends a command's input, so it is asked with the redirection that a host's shell would follow.
NO_INPUT = "< /dev/null"
ANSWER = """#!/bin/sh
case $SSH_ORIGINAL_COMMAND in *"{no_input}") exec {no_input} ;; esac
cat > /dev/null
set -- $SSH_CONNECTION
[ -e {folder}/{hangs}/$3 ] && exec sleep 600
exec cat {folder}/{answers}/$3
"""
# One key exchange, cipher and MAC that every client has: what is compared is not their choice of them.
CONFIG = """
ListenAddress 0.0.0.0
HostKey {keys}/host_key
AuthorizedKeysFile {keys}/id.pub
KexAlgorithms curve25519-sha256,curve25519-sha256@libssh.org
Ciphers aes128-ctr
MACs hmac-sha2-256
ForceCommand {answer}
MaxStartups 2000
StrictModes no
UsePAM no
PasswordAuthentication no
PidFile none
PrintMotd no
LogLevel ERROR
# bash reads ~/.bashrc for a command of sshd: what an account does there is no part of what is compared.
SetEnv HOME=/nonexistent
"""


def missing() -> tuple[str, ...]:
    """Debian packages the benchmark needs and this machine lacks."""
    return tuple(package for tool, package in PACKAGES.items() if not shutil.which(tool))


def separate() -> None:
    """Moves this process, and what it starts, into a network of its own: hosts at LIVING, silence at DEAD."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        raise ApplianceError(f"no own network: {os.strerror(ctypes.get_errno())}", "run it as root")
    run(("ip", "link", "set", "lo", "up"))
    run(("ip", "route", "add", "local", LIVING, "dev", "lo"))
    # A bridge without ports or ARP: what is sent there is never answered, and no router says so.
    run(("ip", "link", "add", "silence", "type", "bridge"))
    run(("ip", "link", "set", "silence", "arp", "off", "up"))
    run(("ip", "route", "add", DEAD, "dev", "silence", "src", OWN))


@contextmanager
def hosts(folder: Path, keys: Path) -> Iterator[None]:
    """All hosts of ``folder`` answer while the block lasts; they are told by ``answers`` and ``hangs`` in it."""
    (folder / HANGS).mkdir(exist_ok=True)
    answer = folder / "answer"
    names = {"folder": folder, "hangs": HANGS, "answers": ANSWERS, "no_input": NO_INPUT}
    answer.write_text(ANSWER.format(**names))
    answer.chmod(0o755)
    config = folder / "sshd_config"
    config.write_text(CONFIG.format(keys=keys, answer=answer))
    made = not SEPARATION.exists()
    SEPARATION.mkdir(exist_ok=True)
    pid = spawn(_sealed("/usr/sbin/sshd", "-D", "-e", "-f", str(config)), log=folder / "sshd.log")
    try:
        _wait(folder / "sshd.log")
        yield
    finally:
        processes.kill(pid)
        os.waitpid(pid, 0)
        if made:
            SEPARATION.rmdir()


def _sealed(*argv: str) -> tuple[str, ...]:
    """So that it ends with this process, however that ends, and all it started with it."""
    return ("setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child", *argv)


def _wait(log: Path) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            with socket.create_connection((address(0), 22), timeout=1):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise ApplianceError("sshd does not start", log.read_text()[-300:]) from None
            time.sleep(0.05)
