"""Errors that a user can cause or encounter; anything else is a bug and keeps its traceback."""

import sys

from appliance import __version__
from appliance.text import lines


class ApplianceError(Exception):
    """One line on what is wrong, and one line on what to do; neither can move a terminal's cursor."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "", host: str | None = None) -> None:
        self.message = lines(message)
        self.hint = lines(hint)
        super().__init__(self.message)
        self.host = host

    def told_of(self, host: str = "") -> str:
        """The message where ``host`` is already named; a message about another host starts with the name of that host."""
        return f"{self.host}: {self.message}" if self.host and self.host != host else self.message


class ConfigError(ApplianceError):
    """A profile, site or option is unusable; no host was contacted."""

    exit_code = 2


class LockedError(ApplianceError):
    """Another run has locked the site."""


class ConnectionFailed(ApplianceError):
    """A host is unreachable, refuses the login, or is not trusted."""


class AnotherKey(ConnectionFailed):
    """The machine at a host's address has a different key than the pinned one."""


class OutOfFiles(ApplianceError):
    """The limit of open files on this machine is reached; nothing is known about the host."""


class CommandFailed(ApplianceError):
    """A program on the control machine ended with an error."""


class ClusterFailed(ApplianceError):
    """The Kubernetes API did not answer, or refused a request."""


class ClusterRefused(ClusterFailed):
    """The API answered and refused this one request; the next request may succeed."""


class AnsibleFailed(ApplianceError):
    """ansible-runner could not run a playbook at all (a host's failure is a value instead)."""


class DeadlineExceeded(ApplianceError):
    """Something did not answer before its timeout."""


class LabMissing(ConfigError):
    """The virtual rack, a distribution of its own, is not installed."""

    MODULES = ("appliance.lab", "appliance.lab.spec")
    """What Python cannot import then: a package that was removed may leave its folder behind."""

    def __init__(self) -> None:
        super().__init__(
            "the virtual rack is not installed; it is a file of the same release",
            f"{sys.executable} -m pip install --no-deps appliance_lab-{__version__}-py3-none-any.whl",
        )


class Unreadable(ApplianceError):
    """A module of the program could not be imported; ``error``: why."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(
            f"the program cannot start: {str(error) or 'not enough memory'}",
            "raise the limits of this shell (ulimit -n, ulimit -v), or reinstall: make setup",
        )
