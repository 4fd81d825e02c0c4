"""What a door to hosts does for its users, whatever it is made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from appliance.adapters.process import Completed


class Remote(Protocol):
    """Runs a program on a host of the site. Where this machine opens no more files, that is raised as OutOfFiles."""

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        """The program's end; a non-zero exit is no error. Raises ConnectionFailed or DeadlineExceeded."""
        ...


class Reachable(Remote, Protocol):
    """A Remote that can also say why a host does not answer, and let go of one."""

    def leave(self, host: str) -> None:
        """Nothing more is asked of this host soon; what is asked all the same is answered as ever."""
        ...

    def reach(self, host: str) -> None:
        """Opens a fresh connection and closes it; raises ConnectionFailed with what is the matter.

        Its message names neither host nor address, so that hosts with the same trouble are told in one line.
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
    """How known_hosts names an address: plain on port 22, bracketed elsewhere."""
    return address if port == 22 else f"[{address}]:{port}"
