"""Verifies a hand-over offline: every byte of the archive, the signature, and whether it matches the current site."""

import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from appliance.actions.acceptance.handover import BASELINE, MANIFEST, RECORD, SIGNATURE, UNSIGNED
from appliance.actions.sites.opening import Target, open_session
from appliance.adapters import archive, signing
from appliance.adapters.archive import Contents
from appliance.engine.accept.baseline import differences
from appliance.engine.look.fact_history import answered_last
from appliance.models.events import Observer
from appliance.models.handover import Baseline, Difference
from appliance.models.run import RunRecord
from appliance.text import shortened

Kept = TypeVar("Kept", RunRecord, Baseline)
LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")
OF_TODAY = timedelta(days=1)
"""Older answers of a host do not describe the current site."""
SIGNED, LISTED, TOLD = 1 << 16, 1 << 26, 1 << 30
"""Largest signature, manifest and record that are read, in bytes: far larger than those of the largest site."""
NAMED = 20
"""Files listed per kind of change; the others are counted."""
NOT_ASKED = "accepted signers were not given: add --allowed-signers FILE"


@dataclass(frozen=True)
class Inspection:
    """``problems``: why it is not what was handed over; ``doubts``: what was not verified; ``differences`` from the site.

    ``signer``: the signer's name in the file of allowed signers. ``answered``: the oldest last answer of the site's
    hosts.
    """

    record: RunRecord | None
    signer: str
    files: int
    problems: tuple[str, ...]
    doubts: tuple[str, ...]
    differences: tuple[Difference, ...]
    answered: datetime | None = None

    @property
    def exit_code(self) -> int:
        """0 unchanged, signed by an allowed signer, of this site; 1 not; 3 unsigned, or not everything was checked."""
        if self.problems or self.differences:
            return 1
        return 3 if self.doubts else 0


def verify(
    path: Path, allowed: Path | None, target: Target | None, observer: Observer
) -> Inspection:
    """Verifies an archive. ``target``: the site to compare with, by its files and its record; no host is contacted.

    Raises ConfigError for a file that is not a hand-over, and for a missing file of signers.
    """
    found = archive.contents(path)
    problems = list(_problems(found))
    signer, problem, doubt = _vouched(found, allowed)
    problems += filter(None, [problem])
    doubts = [doubt] if doubt else []
    record, baseline = _read(RunRecord, found, RECORD), _read(Baseline, found, BASELINE)
    if record is None or baseline is None:
        problems.append(f"{RECORD} and {BASELINE} cannot be read")
    elif found.top != (wanted := _top(record)):
        problems.append(
            f"its folder was renamed to {shortened(found.top)}; it was handed over as {wanted}"
        )
    different: list[Difference] = []
    answered: datetime | None = None
    if target is not None and baseline is not None:
        with open_session(target, "report", observer, only_looks=True, by_ssh=False) as session:
            different = differences(session, baseline)
            answered = min(filter(None, answered_last(session).values()), default=None)
    if answered and answered < datetime.now(UTC) - OF_TODAY:
        doubts.append(
            f"the last answer of a host is from {answered:%Y-%m-%d}; refresh it: appliance health"
        )
    return Inspection(
        record,
        signer,
        len(found.members),
        tuple(problems),
        tuple(doubts),
        tuple(different),
        answered,
    )


def _top(record: RunRecord) -> str:
    """The name of the archive's top folder; no manifest covers headers of a tar archive."""
    if record.handover:
        return record.handover.archive.removesuffix(".tar")
    return f"handover-{record.site}-{record.run}"


def _problems(found: Contents) -> Iterator[str]:
    """What was changed, is missing, or was added."""
    if MANIFEST not in found.members:
        yield f"{MANIFEST} is missing"
        return
    lines = found.read(MANIFEST, LISTED).decode(errors="replace").removesuffix("\n").split("\n")
    read = [LINE.fullmatch(line) if line.isprintable() else None for line in lines]
    listed = {line[2]: line[1] for line in read if line}
    if len(listed) != len(lines):
        yield f"{MANIFEST} was changed: some lines are not in the format of a manifest"
    yield from _files(found, listed)
    if SIGNATURE in found.members and not signing.is_armoured(found.read(SIGNATURE, SIGNED)):
        yield f"{SIGNATURE} was changed"
    if not archive.is_as_written(found):
        yield "the archive itself was changed, but not its files"


def _files(found: Contents, listed: Mapping[str, str]) -> Iterator[str]:
    missing = [name for name in listed if name not in found.members]
    changed = [
        name
        for name, member in found.members.items()
        if listed.get(name, member.sha256) != member.sha256
    ]
    added = [name for name in found.members if name not in {*listed, MANIFEST, SIGNATURE}]
    for names, what in ((missing, "is missing"), (changed, "was changed"), (added, "was added")):
        yield from (f"{shortened(name)} {what}" for name in names[:NAMED])
        if len(names) > NAMED:
            yield f"and {len(names) - NAMED:,} more files: each {what}"


def _vouched(found: Contents, allowed: Path | None) -> tuple[str, str, str]:
    """The signer; problems of the signature; what was not verified. "" if there is nothing to report."""
    if SIGNATURE not in found.members:
        return ("", UNSIGNED, "") if allowed else ("", "", UNSIGNED)
    if allowed is None:
        return "", "", NOT_ASKED
    if MANIFEST in found.members and (signer := _signer(found, allowed)):
        return signer, "", ""
    return "", f"the signer is not in {allowed}, or signed another manifest", ""


def _signer(found: Contents, allowed: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / SIGNATURE
        file.write_bytes(found.read(SIGNATURE, SIGNED))
        return signing.signer_of(file, found.read(MANIFEST, LISTED), allowed)


def _read(model: type[Kept], found: Contents, name: str) -> Kept | None:
    if name not in found.members:
        return None
    try:
        return model.model_validate_json(found.read(name, TOLD))
    except ValidationError:
        return None
