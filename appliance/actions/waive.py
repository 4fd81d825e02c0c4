"""Waive: findings that somebody accepts for a time; kept in the site's journal, and contacting no host."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from appliance.actions.bounds import check_ids
from appliance.actions.opening import Target, open_session
from appliance.config.rules.base import near
from appliance.engine.acceptance import requirements
from appliance.engine.earlier import last_facts
from appliance.engine.gather import Round
from appliance.engine.session import Session
from appliance.engine.survey import view_of
from appliance.engine.user import user_name
from appliance.engine.waivers import all_waivers, give, withdraw
from appliance.errors import ConfigError
from appliance.models.events import Observer
from appliance.models.result import CLUSTER
from appliance.models.waiver import Waiver, unwaivable

LONGEST = timedelta(days=366)
"""What is accepted for longer is no exception but another limit."""


@dataclass(frozen=True)
class Kept:
    """The site's waivers that nobody withdrew, and the day they are judged by."""

    site: str
    today: date
    waivers: tuple[Waiver, ...]


def listed(target: Target, observer: Observer) -> Kept:
    """Every waiver of the site, also those whose day is over."""
    with open_session(target, "waive", observer, only_looks=True, by_ssh=False) as session:
        return _kept(session)


def waive(target: Target, name: str, reason: str, until: date, by: str, observer: Observer) -> Kept:
    """Enters a waiver of ``CHECK[@TARGET]``. Raises ConfigError for what nobody may waive, or nobody knows."""
    check, place = _read(name)
    today = datetime.now().astimezone().date()
    if why := unwaivable(check):
        raise ConfigError(f"{check} cannot be waived: {why}", "mend it, then deploy again")
    if not reason.strip():
        raise ConfigError("--reason is empty", "say why the finding may stand")
    if not today <= until <= today + LONGEST:
        raise ConfigError(
            f"--until {until} is {'over' if until < today else 'more than a year away'}",
            f"name a day from {today} to {today + LONGEST}; what shall stand for longer is a limit in site.yml",
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
        return _kept(session)


def take_back(target: Target, name: str, by: str, observer: Observer) -> Kept:
    """Withdraws a waiver. Raises ConfigError where there is none of that name."""
    with open_session(
        target, "waive", observer, only_looks=True, keeps=True, by_ssh=False
    ) as session:
        known = {waiver.name: waiver for waiver in all_waivers(session)}
        if name not in known:
            raise ConfigError(
                f"there is no waiver {name}", near(name, known, "list them: appliance waive --list")
            )
        withdraw(session, known[name], by or user_name())
        return _kept(session)


def _kept(session: Session) -> Kept:
    today = datetime.now().astimezone().date()
    return Kept(session.site.name, today, all_waivers(session))


def _read(name: str) -> tuple[str, str]:
    check, at, place = name.partition("@")
    if not check or (at and not place):
        raise ConfigError(f"{name} is no CHECK or CHECK@TARGET", "as in gpu.ecc@gpu-3")
    return check, place


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
        raise ConfigError(f"{what} is called {word}", near(word, sorted(known), otherwise))
