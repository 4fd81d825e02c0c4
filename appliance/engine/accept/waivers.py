"""Waivers in the site's journal: given, withdrawn, and what they cover today."""

from collections.abc import Iterable, Sequence
from datetime import date

from pydantic import ValidationError

from appliance.engine.look.kept_results import DEPLOYMENT, KIND, key_of, lacking_of, written_ids
from appliance.engine.session import Session
from appliance.journal import Entry
from appliance.models.result import COMPLAINTS, ResultKey
from appliance.models.waiver import Covered, Waiver, unwaivable
from appliance.stages.renamed import current

GIVEN, WITHDRAWN = "waived", "waiver_withdrawn"


def give(session: Session, waiver: Waiver) -> None:
    """Store a waiver; it replaces an earlier one of the same check and target."""
    session.journal.append(session.run, GIVEN, waiver=waiver.model_dump(mode="json"))


def withdraw(session: Session, waiver: Waiver, by: str) -> None:
    """End a waiver. The journal keeps the record of it."""
    session.journal.append(session.run, WITHDRAWN, check=waiver.check, target=waiver.target, by=by)


def all_waivers(session: Session) -> tuple[Waiver, ...]:
    """Return every waiver that was not withdrawn, in the order given, including expired ones.

    Each has what earlier runs had found, which the journal also knows of old waivers.
    """
    if session.journal.last(GIVEN) is None:
        return ()
    found: dict[tuple[str, str], Waiver] = {}
    known = _Complaints()
    for entry in session.journal.entries(GIVEN, WITHDRAWN, KIND, DEPLOYMENT):
        if entry.kind in {KIND, DEPLOYMENT}:
            known.add(entry)
            continue
        if entry.kind == WITHDRAWN:
            check, target = str(entry.data.get("check")), str(entry.data.get("target"))
            found.pop((current(check, target), target), None)
            continue
        try:
            waiver = Waiver.model_validate(entry.data.get("waiver"))
        except ValidationError:
            continue
        waiver = waiver.model_copy(update={"check": current(waiver.check, waiver.target)})
        found.pop((waiver.check, waiver.target), None)
        found[waiver.check, waiver.target] = waiver.model_copy(
            update={"found": known.covered(waiver)}
        )
    return tuple(found.values())


class _Complaints:
    """Return what was not good, by result, in the order of the journal; of deployments, only the last one counts."""

    def __init__(self) -> None:
        self._of_key: dict[ResultKey, tuple[str, list[Covered]]] = {}
        self._deployed: list[ResultKey] = []
        self._written: dict[ResultKey, str] = {}

    def add(self, entry: Entry) -> None:
        """A change. One run of an earlier version could store several results with one key."""
        self._written |= written_ids(entry)
        if entry.kind == DEPLOYMENT:
            self._deployed = list(lacking_of(entry) or ())
            return
        key = key_of(entry)
        run, covered = self._of_key.pop(key, ("", []))
        if entry.data["status"] not in COMPLAINTS:
            return
        is_old = "aspect" not in entry.data
        words = str(entry.data.get("cause", "")) if is_old else ""
        one = self._covered(key, words)
        self._of_key[key] = (entry.run, [*covered, one] if run == entry.run else [one])

    def covered(self, waiver: Waiver) -> tuple[Covered, ...]:
        """Return the current results that a waiver names and does not cover by its own check and target."""
        found = [(key, one) for key, (_, covered) in self._of_key.items() for one in covered]
        found += [(key, self._covered(key)) for key in self._deployed]
        named = (
            one
            for key, one in found
            if (one.aspect or one.words or one.check) and self._concerns(waiver, key)
        )
        return tuple(dict.fromkeys(named))

    def _covered(self, key: ResultKey, words: str = "") -> Covered:
        check = key.check if self._written[key] != key.check else ""
        return Covered(check=check, target=key.target, aspect=key.aspect, words=words)

    def _concerns(self, waiver: Waiver, key: ResultKey) -> bool:
        """A waiver names a result by today's id of the check, or by the id under which it was found."""
        ids = {key.check, self._written[key]}
        return any(waiver.concerns(check, key.target) for check in ids)


def active(session: Session, today: date | None = None) -> tuple[Waiver, ...]:
    """Return the waivers that are valid today."""
    day = today or date.today()
    return tuple(waiver for waiver in all_waivers(session) if waiver.is_active(day))


def covering(waivers: Iterable[Waiver], result: ResultKey) -> Waiver | None:
    """Return the waiver that covers a result; none for a result that cannot be waived."""
    if unwaivable(result.check):
        return None
    return next((waiver for waiver in waivers if waiver.covers(result)), None)


def all_covered(waivers: Sequence[Waiver], found: Iterable[ResultKey]) -> tuple[Waiver, ...] | None:
    """Return the waivers that together cover all these results; None if one is uncovered, or there are no results."""
    used = [covering(waivers, result) for result in found]
    kept = [waiver for waiver in used if waiver is not None]
    return tuple(dict.fromkeys(kept)) if used and len(kept) == len(used) else None
