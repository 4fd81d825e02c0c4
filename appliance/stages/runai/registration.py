"""The calls of Run:ai's REST API that an installation needs; their client is not part of this stage."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from appliance.text import one_line

ADMINISTRATOR = "System administrator"
"""Role of the service account; roles have other numbers on each control plane."""
ACCOUNT = "appliance"
"""Name of the service account that later calls use."""
CONNECTED = "Connected"
WAITING = "WaitingToConnect"


@dataclass(frozen=True)
class Account:
    """A service account. The secret is shown once."""

    client_id: str
    client_secret: str = field(repr=False)


@dataclass(frozen=True)
class ClusterState:
    """What the control plane reports of a cluster.

    ``state``: WaitingToConnect, Connected, Disconnected, MissingPrerequisites, ServiceIssues or Unknown. ``missing``: required
    dependencies that are not available, with their reasons. ``unready``: parts that are not ready, with their reasons.
    """

    state: str
    version: str = ""
    missing: Mapping[str, str] = field(default_factory=dict)
    unready: Mapping[str, str] = field(default_factory=dict)

    @property
    def cause(self) -> str:
        """Why it is not connected, in one line; empty if the control plane names no cause."""
        parts = [f"{name} is missing{_because(why)}" for name, why in sorted(self.missing.items())]
        parts += [
            f"{name} is not ready{_because(why)}" for name, why in sorted(self.unready.items())
        ]
        return "; ".join(parts)


def state_of(found: Mapping[str, Any]) -> ClusterState:
    """The state in an answer for one cluster with ``verbosity=full``. Raises AttributeError for an unknown form."""
    status = found.get("status") or {}
    required = (status.get("dependencies") or {}).get("required") or {}
    return ClusterState(
        one_line(str(status.get("state", "Unknown"))),
        one_line(str(found.get("version", ""))),
        _reasons(required, "available"),
        _reasons(status.get("operands") or {}, "ready"),
    )


def _reasons(parts: Any, word: str) -> dict[str, str]:
    """The parts that lack this property, with their reasons."""
    rows = parts.items() if isinstance(parts, dict) else ()
    return {
        one_line(str(name)): one_line(str(row.get("reason") or ""))
        for name, row in rows
        if isinstance(row, dict) and row.get(word) is False
    }


def _because(why: str) -> str:
    return f" ({why})" if why else ""


class ControlPlane(Protocol):
    """Run:ai's control plane.

    Every call raises ClusterFailed while the control plane does not answer or still starts (503), and ClusterRefused where it
    refuses the call, each with a cause and a remedy.
    """

    def log_in(self, user: str, password: str) -> None:
        """Log in as the first administrator; later calls use this token and renew it."""
        ...

    def account(self, name: str, role: str, cluster: str) -> Account:
        """A service account of this name with this role in the cluster; an existing one gets a new secret."""
        ...

    def cluster(self, name: str, domain: str) -> str:
        """The id of the cluster of this name; it is created if there is none. Raises ConfigError if it has another domain."""
        ...

    def bootstrap_token(self, cluster: str, version: str, url: str) -> str:
        """A new token for the cluster's chart, valid for two hours."""
        ...

    def state(self, cluster: str) -> ClusterState:
        """The cluster's state."""
        ...
