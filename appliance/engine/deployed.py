"""Whether the site as it is declared now is the one that was deployed and proved."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from appliance.engine.fingerprint import files_of
from appliance.engine.session import Session
from appliance.engine.waivers import all_covered
from appliance.journal import Entry, New
from appliance.models.result import Verdict, lacking
from appliance.models.run import RunRecord
from appliance.models.waiver import Waiver
from appliance.stages.catalog import STAGES
from appliance.text import plural

DEPLOYMENT = "deployment"
BESIDE = frozenset({"version", "access", "secrets"})
"""Sections of site and profile that prove nothing: how to log in, and where secrets lie."""
NAMED = 3
WAIVABLE = 200


@dataclass(frozen=True)
class Standing:
    """Why the deployment is not proved, "" if it is; ``waivers``: those without which it would not be."""

    why: str
    waivers: tuple[Waiver, ...] = ()


def note_deployment(session: Session, record: RunRecord) -> None:
    """Keeps how a deployment ended and what was deployed, for the verdict on the site."""
    bad = [[result.id, result.target] for result in lacking(record.results)]
    ended = {
        "verdict": record.verdict.value,
        "whole": not record.narrowed,
        # More than a person would waive one by one need no waiver but a repair.
        "lacking": bad if len(bad) <= WAIVABLE else None,
    }
    session.journal.append_all(session.run, [New(DEPLOYMENT, ended | _what(session))])


def undeployed(session: Session, waivers: Sequence[Waiver] = ()) -> Standing:
    """Whether the last deployment of the whole site and all after it were good, or what was not is waived."""
    found = Standing("no deployment of the whole site is proved")
    for entry in session.journal.entries(DEPLOYMENT):
        used = () if entry.data["verdict"] == Verdict.PASSED.value else _waived(entry, waivers)
        if used is None:
            found = Standing(
                f"the deployment of run {entry.run} did not pass ({entry.data['verdict']})"
            )
        elif entry.data["whole"]:
            found = Standing(_differs(session, entry), used)
        elif not found.why:
            found = Standing("", tuple(dict.fromkeys((*found.waivers, *used))))
    return Standing(f"{found.why}: appliance deploy") if found.why else found


def _waived(entry: Entry, waivers: Sequence[Waiver]) -> tuple[Waiver, ...] | None:
    """The waivers that cover all that a deployment lacked; None where they do not."""
    found = entry.data.get("lacking")
    if not isinstance(found, list):
        return None
    return all_covered(waivers, [(str(check), str(target)) for check, target in found])


def _what(session: Session) -> dict[str, object]:
    """What a deployment is of. Another site's journal, another class or another set of hosts proves nothing here."""
    return {
        "site": session.site.name,
        "profile": session.profile.name,
        "hosts": sorted(host.name for host in session.site.hosts),
        "declared": declared(session),
    }


def declared(session: Session) -> dict[str, str]:
    """Digests of all that is proved, by section: models, not files, so that a comment is no change.

    Queues are no part of it: projects come and go on a proved site.
    """
    site = session.site.model_dump(mode="json", exclude={"scheduler": {"departments", "projects"}})
    profile = session.profile.model_dump(mode="json")
    found = {
        f"{of} {key}": _digest(value)
        for of, model in (("site", site), ("profile", profile))
        for key, value in model.items()
        if key not in BESIDE
    }
    # The salt is made of all secrets; what is kept tells nobody what they are.
    found["secrets"] = hashlib.blake2b(key=session.salt, digest_size=12).hexdigest()
    for stage in STAGES:
        if stage.wanted(session.site):
            found |= files_of(stage, session.data)
    return found


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:24]


def _differs(session: Session, entry: Entry) -> str:
    """Why a deployment is not of this site as it is; "" where it is."""
    wanted = _what(session)
    if not wanted.keys() <= entry.data.keys():
        return f"run {entry.run}, of an earlier version, did not record what it deployed"
    if any(entry.data[key] != wanted[key] for key in ("site", "profile", "hosts")):
        return f"run {entry.run} deployed another site, class or hosts"
    then, now = entry.data["declared"], wanted["declared"]
    if not isinstance(then, dict) or not isinstance(now, dict):
        return f"what run {entry.run} deployed cannot be read"
    changed = sorted(key for key in then.keys() | now.keys() if then.get(key) != now.get(key))
    if not changed:
        return ""
    more = f" and {plural(len(changed) - NAMED, 'other')}" if len(changed) > NAMED else ""
    return f"changed since run {entry.run} deployed it: {', '.join(changed[:NAMED])}{more}"
