"""Run:ai's control plane as this machine sees it, for the checks; it is asked with the site's service account."""

import time
from datetime import UTC, datetime

from appliance.adapters.runai import Account, Runai, path_of
from appliance.config.secrets import Redactor
from appliance.engine.session import Session
from appliance.errors import ApplianceError
from appliance.hidden import hide
from appliance.stages.runai.facts import RunaiAnswer
from appliance.stages.runai.registration import state_of
from appliance.stages.scheduler.rules.runai import SECRET
from appliance.stages.scheduler.site import RunaiOptions

WAITS_S = (1.0,)
"""A single retry: the caller waits for all hosts, too."""


def is_known(session: Session) -> bool:
    """Whether the site has a Run:ai, and an account there."""
    options = session.site.scheduler.runai if session.site.scheduler else None
    return options is not None and options.client is not None and SECRET in session.secrets


def ask(session: Session) -> RunaiAnswer:
    """The state of the site's cluster. What cannot be read is the answer's ``api``."""
    options = session.site.scheduler.runai if session.site.scheduler else None
    assert options is not None
    try:
        return _asked(session, options)
    except ApplianceError as error:
        return RunaiAnswer(api=error.message, fix=error.hint)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        said = f"{options.address} answers in an unknown form: {type(error).__name__} {error}"
        return RunaiAnswer(api=said, fix="check that Run:ai is 3.0 or newer")


def _asked(session: Session, options: RunaiOptions) -> RunaiAnswer:
    authority = session.folder / options.ca if options.ca else None
    account = Account(options.address, str(options.client), str(session.secrets[SECRET]), authority)
    name = options.cluster or session.site.name
    with Runai(account, waits=WAITS_S, hide=_hide) as client:
        ends = client.certificate_ends()
        rows = client.plain(path_of("v1", "clusters"), "clusters", "list clusters")
        own = next((row for row in rows if row.get("name") == name), None)
        if own is None:
            return RunaiAnswer(
                api=f"{client.server} has no cluster {name}",
                fix="register the cluster, or write its name in scheduler.runai.cluster",
                certificate_s=_left(ends),
            )
        path = path_of("v1", "clusters", own["uuid"]) + "?verbosity=full"
        found = client.get(path, "read the state of the cluster") or {}
    state = state_of(found)
    return RunaiAnswer(
        api="ok",
        state=state.state,
        version=state.version,
        cause=state.cause,
        silent_s=_since(found.get("lastLiveness")),
        certificate_s=_left(ends),
    )


def _left(ends: float | None) -> float | None:
    return None if ends is None else ends - time.time()


def _since(moment: object) -> float | None:
    """Seconds since a time in ISO 8601; None if there is none."""
    if not isinstance(moment, str) or not moment:
        return None
    found = datetime.fromisoformat(moment)
    at = found if found.tzinfo else found.replace(tzinfo=UTC)
    return max(0.0, time.time() - at.timestamp())


def _hide(token: str) -> None:
    hide([token], lambda known: Redactor(known).texts)
