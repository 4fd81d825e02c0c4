"""Where stage ``runai`` gets the client of Run:ai's REST API, and where it stores its service account."""

from collections.abc import Callable

from appliance.engine.session import Session
from appliance.errors import ConfigError
from appliance.stages.runai.registration import Account, ControlPlane


def connect(session: Session) -> ControlPlane:
    """A client of the site's control plane. Raises ConfigError: this release has none."""
    raise ConfigError(
        f"site {session.site.name} installs Run:ai, but this release cannot register its cluster",
        "use kind: kai",
    )


def keep(session: Session) -> Callable[[Account], None] | None:
    """How a new service account is stored; None if the site has one, or has nowhere to store it."""
    return None
