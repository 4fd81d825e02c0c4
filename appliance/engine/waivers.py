"""Waivers in the site's record: given, withdrawn, and what they cover today."""

from collections.abc import Iterable, Sequence
from datetime import date

from pydantic import ValidationError

from appliance.engine.session import Session
from appliance.models.waiver import Waiver, unwaivable

GIVEN, WITHDRAWN = "waived", "waiver_withdrawn"


def give(session: Session, waiver: Waiver) -> None:
    """Enters a waiver; one of the same check and target takes the place of an earlier one."""
    session.journal.append(session.run, GIVEN, waiver=waiver.model_dump(mode="json"))


def withdraw(session: Session, waiver: Waiver, by: str) -> None:
    """Ends a waiver. The journal keeps that it was given."""
    session.journal.append(session.run, WITHDRAWN, check=waiver.check, target=waiver.target, by=by)


def all_waivers(session: Session) -> tuple[Waiver, ...]:
    """Every waiver that nobody withdrew, in the order given, also those whose day is over."""
    found: dict[tuple[str, str], Waiver] = {}
    for entry in session.journal.entries(GIVEN, WITHDRAWN):
        if entry.kind == WITHDRAWN:
            found.pop((str(entry.data.get("check")), str(entry.data.get("target"))), None)
            continue
        try:
            waiver = Waiver.model_validate(entry.data.get("waiver"))
        except ValidationError:
            continue
        found.pop((waiver.check, waiver.target), None)
        found[waiver.check, waiver.target] = waiver
    return tuple(found.values())


def active(session: Session, today: date | None = None) -> tuple[Waiver, ...]:
    """The waivers that count today."""
    day = today or date.today()
    return tuple(waiver for waiver in all_waivers(session) if waiver.is_active(day))


def covering(waivers: Iterable[Waiver], check: str, target: str) -> Waiver | None:
    """The waiver that covers a result; what cannot be waived is covered by none."""
    if unwaivable(check):
        return None
    return next((waiver for waiver in waivers if waiver.covers(check, target)), None)


def all_covered(
    waivers: Sequence[Waiver], found: Iterable[tuple[str, str]]
) -> tuple[Waiver, ...] | None:
    """The waivers that together cover all of these checks and targets; None where one is left, or there are none."""
    used = [covering(waivers, check, target) for check, target in found]
    kept = [waiver for waiver in used if waiver is not None]
    return tuple(dict.fromkeys(kept)) if used and len(kept) == len(used) else None
