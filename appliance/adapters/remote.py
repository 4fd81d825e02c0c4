"""Interfaces of the adapters that reach hosts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from appliance.adapters.process import Completed


class Remote(Protocol):
    """Runs a program on a host of the site. Raises OutOfFiles if the limit of open files is reached."""

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        """The result of the program; a non-zero exit is not an error. Raises ConnectionFailed or DeadlineExceeded."""
        ...


class Reachable(Remote, Protocol):
    """A Remote that can also diagnose a host that does not answer, and release one."""

    def leave(self, host: str) -> None:
        """The host is not needed soon; requests to it still work."""
        ...

    def reach(self, host: str) -> None:
        """Opens a new connection and closes it; raises ConnectionFailed with the diagnosis.

        Its message names neither host nor address, so that hosts with the same problem are reported in one line.
        """
        ...


@dataclass(frozen=True)
class Endpoint:
    """How to log in to one host. ``private_key`` None means the agent or the user's own keys."""

    host: str
    address: str
    port: int
    user: str
    private_key: Path | None
    known_hosts: Path
    become: bool


def known_hosts_name(address: str, port: int) -> str:
    """The name of an address in known_hosts: plain for port 22, bracketed for others."""
    return address if port == 22 else f"[{address}]:{port}"
