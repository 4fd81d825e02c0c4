"""Waive: findings that a person accepts until a date; kept in the site's journal. Contacts no host."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from appliance.actions.profiles.limit_bounds import check_ids
from appliance.actions.sites.opening import Target, open_session
from appliance.config.rules.base import near
from appliance.engine.accept.acceptance import requirements
from appliance.engine.accept.waivers import all_waivers, give, withdraw
from appliance.engine.look.fact_history import last_facts
from appliance.engine.look.gather import Round
from appliance.engine.look.survey import view_of
from appliance.engine.session import Session
from appliance.engine.user import user_name
from appliance.errors import ConfigError
from appliance.models.events import Observer
from appliance.models.result import CLUSTER
from appliance.models.waiver import Waiver, unwaivable
from appliance.stages.renamed import current

LONGEST = timedelta(days=366)
"""A longer exception belongs in a limit."""


@dataclass(frozen=True)
class SiteWaivers:
    """The site's waivers that were not withdrawn, and the day they are judged by."""

    site: str
    today: date
    waivers: tuple[Waiver, ...]


def listed(target: Target, observer: Observer) -> SiteWaivers:
    """Every waiver of the site, including expired ones."""
    with open_session(target, "waive", observer, only_looks=True, by_ssh=False) as session:
        return _waivers(session)


def waive(
    target: Target, name: str, reason: str, until: date, by: str, observer: Observer
) -> SiteWaivers:
    """Records a waiver of ``CHECK[@TARGET]``. Raises ConfigError for a finding that cannot be waived or is unknown."""
    check, place = _read(name)
    today = datetime.now().astimezone().date()
    if why := unwaivable(check):
        raise ConfigError(f"{check} cannot be waived: {why}", "fix it, then deploy again")
    if not reason.strip():
        raise ConfigError("--reason is empty", "state why the finding is acceptable")
    if not today <= until <= today + LONGEST:
        raise ConfigError(
            f"--until {until} is {'in the past' if until < today else 'more than a year away'}",
            f"use a day from {today} to {today + LONGEST}; for a permanent exception, set a limit in site.yml",
        )
    with open_session(
        target, "waive", observer, only_looks=True, keeps=True, by_ssh=False
    ) as session:
        _require_known(session, check, place)
        given = datetime.now(UTC)
        waiver = Waiver(
            check=check,
            target=place,
            reason=reason,
            by=by or user_name(),
            until=until.isoformat(),
            given=given,
        )
        give(session, waiver)
        return _waivers(session)


def withdraw_waiver(target: Target, name: str, by: str, observer: Observer) -> SiteWaivers:
    """Withdraws a waiver. Raises ConfigError if it does not exist."""
    with open_session(
        target, "waive", observer, only_looks=True, keeps=True, by_ssh=False
    ) as session:
        known = {waiver.name: waiver for waiver in all_waivers(session)}
        if name not in known:
            raise ConfigError(
                f"there is no waiver {name}", near(name, known, "list them: appliance waive --list")
            )
        withdraw(session, known[name], by or user_name())
        return _waivers(session)


def _waivers(session: Session) -> SiteWaivers:
    today = datetime.now().astimezone().date()
    return SiteWaivers(session.site.name, today, all_waivers(session))


def _read(name: str) -> tuple[str, str]:
    check, at, place = name.partition("@")
    if not check or (at and not place):
        raise ConfigError(f"{name} is not CHECK or CHECK@TARGET", "write it like gpu.ecc@gpu-3")
    return current(check, place), place


def _require_known(session: Session, check: str, place: str) -> None:
    facts = {h.name: f for h in session.site.hosts if (f := last_facts(session, h.name))}
    gates = {wanted.id for wanted in requirements(view_of(session, Round(facts, {})))}
    _require(
        check, {*check_ids(), *gates}, "no check or gate", "list the checks: appliance explain"
    )
    hosts = {CLUSTER, *(host.name for host in session.site.hosts)}
    if place:
        _require(place.partition("/")[0], hosts, "no host", f"hosts: {', '.join(sorted(hosts))}")


def _require(word: str, known: Collection[str], what: str, otherwise: str) -> None:
    if word not in known:
        raise ConfigError(f"{what} is named {word}", near(word, sorted(known), otherwise))
