"""The errors a user can cause or meet; anything else is a bug and keeps its traceback."""

from appliance.text import lines


class ApplianceError(Exception):
    """One line of what is wrong, and one line of what to do about it; neither can move a terminal's cursor."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "", host: str | None = None) -> None:
        self.message = lines(message)
        self.hint = lines(hint)
        super().__init__(self.message)
        self.host = host

    def told_of(self, host: str = "") -> str:
        """The message where ``host`` is named already: one about another host begins with that one's name."""
        return f"{self.host}: {self.message}" if self.host and self.host != host else self.message


class ConfigError(ApplianceError):
    """A profile, site or option is unusable; no host was contacted."""

    exit_code = 2


class LockedError(ApplianceError):
    """Another run holds the site."""


class ConnectionFailed(ApplianceError):
    """A host could not be reached, authenticated or trusted."""


class AnotherKey(ConnectionFailed):
    """What answers at a host's address shows another key than the pinned one."""


class OutOfFiles(ApplianceError):
    """This machine opens no more files for the program: nothing is known of the host it was to ask."""


class CommandFailed(ApplianceError):
    """A program on the control machine ended with an error."""


class ClusterFailed(ApplianceError):
    """The Kubernetes API did not answer, or refused what was asked."""


class ClusterRefused(ClusterFailed):
    """It answered, and refused this one request: the next may pass."""


class AnsibleFailed(ApplianceError):
    """ansible-runner could not run a playbook at all (a host's failure is a value instead)."""


class DeadlineExceeded(ApplianceError):
    """Something did not answer in the time it was given."""


class Unreadable(ApplianceError):
    """A part of the program could not be read; ``error``: why."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(
            f"the program cannot start: {str(error) or 'not enough memory'}",
            "raise the limits of this shell (ulimit -n, ulimit -v), or install anew: make setup",
        )
