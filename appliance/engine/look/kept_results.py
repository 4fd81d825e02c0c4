"""Results in the journal: of health runs the changes, one entry per result that changed status; of a deployment the failures."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from appliance.journal import Entry
from appliance.models.result import ResultKey, Status
from appliance.stages.renamed import current

KIND, DEPLOYMENT = "health", "deployment"


@dataclass(frozen=True)
class Kept:
    """The last change of a result. ``of_any_aspect``: written by a version that kept one result per check and target."""

    status: str
    time: datetime
    of_any_aspect: bool = False


class KeptResults:
    """Return the last change of each result; a change is dated by the first entry of its run."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._last: dict[ResultKey, Kept] = {}
        looks: dict[str, datetime] = {}
        for entry in entries:
            time = looks.setdefault(entry.run, entry.time)
            self._last[key_of(entry)] = Kept(
                str(entry.data["status"]), time, "aspect" not in entry.data
            )

    def of(self, key: ResultKey) -> Kept | None:
        """Find the entry kept for a result, or for its target if an earlier version wrote it."""
        if (found := self._last.get(key)) or not key.aspect:
            return found
        of_target = self._last.get(key._replace(aspect=""))
        return of_target if of_target and of_target.of_any_aspect else None

    def complaints(self, now: Iterable[ResultKey]) -> list[ResultKey]:
        """Return results that were not good and are not among the keys ``now``."""
        named = set(now)
        targets = {key._replace(aspect="") for key in named}
        return [
            key
            for key, kept in self._last.items()
            if kept.status != Status.PASS.value
            and key not in named
            and not (kept.of_any_aspect and key in targets)
        ]


def key_of(entry: Entry) -> ResultKey:
    """Return the result of an entry, by today's id of its check."""
    return _today(_written(entry.data))


def lacking_of(entry: Entry) -> list[ResultKey] | None:
    """Return the failures of a deployment, by today's ids; None if it kept no list. Earlier versions kept no aspects."""
    found = _failures(entry)
    return None if found is None else [_today(key) for key in found]


def written_ids(entry: Entry) -> dict[ResultKey, str]:
    """Return the id that the entry has for the check of each of its results, which an earlier version may have named differently."""
    found = _failures(entry) or [] if entry.kind == DEPLOYMENT else [_written(entry.data)]
    return {_today(key): key.check for key in found}


def _failures(entry: Entry) -> list[ResultKey] | None:
    found = entry.data.get("lacking")
    return [ResultKey(*map(str, key)) for key in found] if isinstance(found, list) else None


def _written(data: Mapping[str, Any]) -> ResultKey:
    return ResultKey(str(data.get("check")), str(data.get("target")), str(data.get("aspect", "")))


def _today(key: ResultKey) -> ResultKey:
    return key._replace(check=current(key.check, key.target))
