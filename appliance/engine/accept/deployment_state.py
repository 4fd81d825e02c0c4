"""Whether the site as declared now is the site that was deployed and proved."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from appliance.engine.accept.waivers import all_covered
from appliance.engine.look.kept_results import DEPLOYMENT, lacking_of
from appliance.engine.plan.fingerprint import files_of
from appliance.engine.session import Session
from appliance.journal import Entry, New
from appliance.models.result import Verdict, lacking
from appliance.models.run import RunRecord
from appliance.models.waiver import Waiver
from appliance.stages.catalog import STAGES
from appliance.text import plural

BESIDE = frozenset({"version", "access", "secrets"})
"""Sections of site and profile that are not part of the proof: how to log in, and where secrets are."""
NAMED = 3
WAIVABLE = 200


@dataclass(frozen=True)
class DeploymentState:
    """Return why the deployment is not proved, "" if it is; ``waivers``: those that the proof depends on."""

    why: str
    waivers: tuple[Waiver, ...] = ()


def record_deployment(session: Session, record: RunRecord) -> None:
    """Record how a deployment ended and what was deployed, for the verdict on the site."""
    bad = [list(result.key) for result in lacking(record.results)]
    ended = {
        "verdict": record.verdict.value,
        "whole": not record.narrowed,
        # More failures than a person would waive one by one need a repair, not waivers.
        "lacking": bad if len(bad) <= WAIVABLE else None,
    }
    session.journal.append_all(session.run, [New(DEPLOYMENT, ended | _what(session))])


def deployment_state(session: Session, waivers: Sequence[Waiver] = ()) -> DeploymentState:
    """Return whether the last deployment of the whole site, and all after it, succeeded or is waived."""
    found = DeploymentState("no deployment of the whole site has passed")
    for entry in session.journal.entries(DEPLOYMENT):
        used = () if entry.data["verdict"] == Verdict.PASSED.value else _waived(entry, waivers)
        if used is None:
            found = DeploymentState(
                f"the deployment of run {entry.run} did not pass ({entry.data['verdict']})"
            )
        elif entry.data["whole"]:
            found = DeploymentState(_differs(session, entry), used)
        elif not found.why:
            found = DeploymentState("", tuple(dict.fromkeys((*found.waivers, *used))))
    return DeploymentState(f"{found.why}: appliance deploy") if found.why else found


def _waived(entry: Entry, waivers: Sequence[Waiver]) -> tuple[Waiver, ...] | None:
    """Return the waivers that cover everything a deployment lacked; None if they do not."""
    found = lacking_of(entry)
    return None if found is None else all_covered(waivers, found)


def _what(session: Session) -> dict[str, object]:
    """Return what a deployment covers. Another site's journal, another class or another set of hosts proves nothing here."""
    return {
        "site": session.site.name,
        "profile": session.profile.name,
        "hosts": sorted(host.name for host in session.site.hosts),
        "declared": declared_digests(session),
    }


def declared_digests(session: Session) -> dict[str, str]:
    """Return digests of everything that is proved, by section. They cover models, not files, so comments do not count.

    Queues are not included: projects change on a deployed site.
    """
    site = session.site.model_dump(mode="json", exclude={"scheduler": {"departments", "projects"}})
    profile = session.profile.model_dump(mode="json")
    found = {
        f"{of} {key}": _digest(value)
        for of, model in (("site", site), ("profile", profile))
        for key, value in model.items()
        if key not in BESIDE
    }
    for name, own in _classes(session).items():
        found[f"class {name}"] = _digest(own)
    # The salt is made of all secrets; the digests do not reveal them.
    found["secrets"] = hashlib.blake2b(key=session.salt, digest_size=12).hexdigest()
    for stage in STAGES:
        if stage.wanted(session.site):
            found |= files_of(stage, session.data)
    return found


def _classes(session: Session) -> dict[str, object]:
    """Return the classes of hosts that name one, by host; empty if all have the site's class."""
    site = session.site
    hosts = [host.name for host in site.hosts] if site.has_classes else []
    profiles = {own.name: own for own in map(session.profile_of, hosts)}
    return {name: own.model_dump(mode="json") for name, own in profiles.items()}


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:24]


def _differs(session: Session, entry: Entry) -> str:
    """Return why a deployment does not cover this site as it is; "" if it does."""
    wanted = _what(session)
    if not wanted.keys() <= entry.data.keys():
        return f"run {entry.run}, of an earlier version, did not record what it deployed"
    if any(entry.data[key] != wanted[key] for key in ("site", "profile", "hosts")):
        return f"run {entry.run} deployed another site, class or hosts"
    then, now = entry.data["declared"], wanted["declared"]
    if not isinstance(then, dict) or not isinstance(now, dict):
        return f"the record of run {entry.run} cannot be read"
    changed = sorted(key for key in then.keys() | now.keys() if then.get(key) != now.get(key))
    if not changed:
        return ""
    more = f" and {plural(len(changed) - NAMED, 'other')}" if len(changed) > NAMED else ""
    return f"changed since run {entry.run} deployed it: {', '.join(changed[:NAMED])}{more}"
