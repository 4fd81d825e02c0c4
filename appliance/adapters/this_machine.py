"""Runs programs on this machine instead of on a host that is reached by SSH."""

from collections.abc import Sequence

from appliance.adapters.process import Completed, run


class ThisMachine:
    """See Reachable; every host is this machine."""

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        """See Remote. Raises CommandFailed or DeadlineExceeded."""
        return run(argv, input=input, timeout=timeout, check=False)

    def reach(self, host: str) -> None:
        """See Reachable."""

    def leave(self, host: str) -> None:
        """See Reachable."""
