"""What a site was judged by, as documents: written into a support bundle, and read from one that another may have written."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from pydantic import AwareDatetime, Field, ValidationError

from appliance import __version__
from appliance.adapters.json_answers import parsed
from appliance.adapters.process import Completed
from appliance.config import data
from appliance.config.secrets import Redactor
from appliance.engine.look.answer_limits import LONGEST, excess
from appliance.engine.look.fact_history import (
    WORDS,
    earlier_entry,
    unmistakable,
    without_secrets,
)
from appliance.engine.look.gather import Round, Unanswered
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError, ConnectionFailed
from appliance.journal import Entry, Journal
from appliance.models.base import Document, Model
from appliance.models.events import Observer
from appliance.models.facts import HostFacts
from appliance.models.images import ImageLock
from appliance.models.line import Line
from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.stages.kubernetes.facts import ExternalCluster
from appliance.support.shapes import masked

FOLDER = "judge"
"""The part of a bundle that is judged; it comes first."""
SITE, JOURNAL, FACTS = "site.json", "journal.jsonl", "facts/"
BULKY = frozenset({"declared", "facts", "result", "measured"})
"""Kinds of entries that are not judged, or only the newest one of each host. "declared" has digests of secrets."""
MOST_JOURNAL = 48 << 20
"""Bytes of the journal in a bundle."""
MASKED = tuple(area for area in WORDS if area not in {"foreign", "weekly"})
"""Areas with text of programs. Lines of foreign files are outlined on their host; the weekly scan holds digests."""
EXACT = frozenset({"accepted", "baseline", "handover", "posture", "posture_deep"})
"""Kinds of entries that are compared with facts: digests, outlines, and encoded facts."""


class Missing(Model):
    """A host that did not answer."""

    cause: Line
    fix: Line
    away: bool


class Judged(Document):
    """The site, and the answers that are not facts. ``classes``: profiles by name, ``class_of``: the name by host."""

    appliance: Line
    run: Line
    taken: AwareDatetime
    seconds: float
    site: Site
    profile: Profile
    classes: dict[str, Profile] = Field(default_factory=dict)
    class_of: dict[str, str] = Field(default_factory=dict)
    lock: ImageLock | None = None
    unanswered: dict[str, Missing] = Field(default_factory=dict)
    external: ExternalCluster | None = None


class Kept(Model):
    """An entry of the journal as a line."""

    seq: int = Field(ge=0, lt=1 << 62)
    time: AwareDatetime
    run: str
    kind: str
    stage: str
    host: str
    data: dict[str, Any]


def journal_lines(session: Session) -> tuple[str, bool]:
    """Return what judging reads of the journal, before it is judged; and whether it is all."""
    redact = unmistakable(session)
    earlier = [earlier_entry(session, host.name) for host in session.site.hosts]
    rest = (entry for entry in session.journal.entries() if entry.kind not in BULKY)
    lines: list[str] = []
    size = 0
    for entry in sorted([*filter(None, earlier), *rest], key=lambda entry: entry.seq):
        line = redact(json.dumps(_fields(entry)))
        size += len(line) + 1
        if size > MOST_JOURNAL:
            return "\n".join(lines), False
        lines.append(line)
    return "\n".join(lines), True


def _fields(entry: Entry) -> dict[str, object]:
    data = entry.data
    if entry.kind == "facts" and isinstance(facts := data.get("facts"), dict):
        data = {**data, "facts": _without_words(facts)}
    elif entry.kind not in EXACT:
        data = masked_texts(data)
    return {**vars(entry), "time": entry.time.isoformat(), "data": data}


def _without_words(facts: dict[str, Any]) -> dict[str, Any]:
    return {k: masked_texts(v) if k in MASKED else v for k, v in facts.items()}


def documents(
    session: Session, found: Round, taken: datetime, seconds: float
) -> Iterator[tuple[str, str]]:
    """Yield names and texts of the site and of each host's facts, without secrets."""
    site, redact = session.site, unmistakable(session)
    classes = {h.name: session.profile_of(h.name) for h in site.hosts} if site.has_classes else {}
    judged = Judged(
        appliance=__version__,
        run=session.run,
        taken=taken,
        seconds=seconds,
        site=site,
        profile=session.profile,
        classes={profile.name: profile for profile in classes.values()},
        class_of={host: profile.name for host, profile in classes.items()},
        lock=session.lock,
        unanswered={
            host: Missing(
                cause=masked(session.redact(one.cause)), fix=masked(one.fix), away=one.away
            )
            for host, one in found.unanswered.items()
        },
        external=found.external,
    )
    yield SITE, redact.texts(judged).model_dump_json(indent=1)
    for host, facts in found.facts.items():
        yield f"{FACTS}{host}.json", json.dumps(_without_words(without_secrets(session, facts)))


def masked_texts(value: Any) -> Any:
    """The same with everything in its texts masked that looks like a secret."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {key: masked_texts(item) for key, item in value.items()}
    return [masked_texts(item) for item in value] if isinstance(value, list) else value


class _Away:
    """The hosts of a site that is judged by a file: no one reaches them."""

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        """See Remote."""
        self._refuse(host)

    def reach(self, host: str) -> None:
        """See Reachable."""
        self._refuse(host)

    def leave(self, host: str) -> None:
        """See Reachable."""

    def _refuse(self, host: str) -> NoReturn:
        raise ConnectionFailed("a bundle is judged without its hosts", "", host)


@contextmanager
def opened(
    path: Path, files: Mapping[str, bytes], observer: Observer
) -> Iterator[tuple[Session, Round, Judged]]:
    """The site and the answers of a bundle. Raises ConfigError for anything that ``documents`` does not write."""
    try:
        judged = Judged.model_validate(parsed(_text(files, SITE)), extra="ignore")
        site = judged.site.with_profiles(
            {host: judged.classes[name] for host, name in judged.class_of.items()}
        )
        # In the site's order, as hosts are asked: some checks take the first answer.
        names = dict.fromkeys(host.name for host in site.hosts)
        facts = {name: _facts(name, files) for name in names if f"{FACTS}{name}.json" in files}
        entries = list(_entries(_text(files, JOURNAL)))
        unanswered = {
            name: Unanswered(name, one.cause, one.fix, one.away)
            for name, one in judged.unanswered.items()
            if name in names.keys() - facts.keys()
        }
        if silent := names.keys() - facts.keys() - unanswered.keys():
            raise ValueError(f"it lacks the facts of {min(silent)}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise _foreign(path, f"{field or first['type']}: {first['msg']}") from None
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _foreign(path, str(error) or type(error).__name__) from None
    with Journal(Path(), of_trials=True) as journal:
        try:
            journal.restore(entries)
        except (ApplianceError, ValueError) as error:
            raise _foreign(path, str(error)) from None
        session = Session(
            run=judged.run,
            verb="health",
            site=site,
            profile=judged.profile,
            folder=Path(),
            data=data.built_root(),
            runs=Path(),
            secrets={},
            remote=_Away(),
            journal=journal,
            observer=observer,
            redact=Redactor(()),
            lock=judged.lock,
        )
        yield session, Round(facts, unanswered, judged.external), judged


def _text(files: Mapping[str, bytes], name: str) -> str:
    if name not in files:
        raise ValueError(f"it lacks {FOLDER}/{name}")
    return files[name].decode()


def _facts(name: str, files: Mapping[str, bytes]) -> HostFacts:
    content = files[f"{FACTS}{name}.json"]
    if len(content) > LONGEST:
        raise ValueError(f"the facts of {name} are longer than {LONGEST >> 20} MiB")
    answer = parsed(content.decode())
    if not isinstance(answer, dict) or (too_much := excess(answer)):
        raise ValueError(
            f"the facts of {name}: {too_much if isinstance(answer, dict) else 'no fields'}"
        )
    return HostFacts.model_validate({**answer, "host": name}, extra="ignore")


def _entries(lines: str) -> Iterable[Entry]:
    for line in filter(None, lines.split("\n")):
        yield Entry(**dict(Kept.model_validate(parsed(line))))


def _foreign(path: Path, why: str) -> ConfigError:
    return ConfigError(
        f"{path} is not a support bundle of this release: {why}",
        f"use the file as support-bundle wrote it, with the same release; this is {__version__}",
    )
