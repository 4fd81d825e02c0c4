"""The hand-over: a folder and an archive with the report, its evidence, a manifest of both, and a signature."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance.adapters import archive, process, signing
from appliance.adapters.signing import Key
from appliance.config.bounded_files import opened
from appliance.engine.accept.baseline import baseline_of, keep_baseline
from appliance.engine.accept.evidence import recorded
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.evidence import Evidence, EvidenceFile
from appliance.models.run import HandOver, KeptFile, RunRecord
from appliance.report.advice import told

MANIFEST = "MANIFEST.sha256"
SIGNATURE = f"{MANIFEST}.sig"
RECORD, BASELINE = "handover.json", "baseline.json"
LARGEST = 256 << 20
"""Largest enclosed file of evidence, in bytes; larger files are listed with their digest."""
PRINTING_S = 180.0
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
UNSIGNED = "UNSIGNED. Changes to its files cannot be detected: anyone with write access can also replace the manifest."
FILES = {
    "handover.html": "the report, for people",
    "handover.pdf": "the same report as a printable document",
    RECORD: "the same report for programs",
    BASELINE: "the accepted state of the site: inventory with serials and firmware, versions, values",
    "evidence.json": "all evidence of the site's record, with the digest of every file",
    "evidence": "output of the tools",
    "facts": "answers of the hosts",
    MANIFEST: "SHA-256 of every file here",
}
"""The files of a hand-over, in reading order."""
SIGNED_BY = """
  (signed with key {fingerprint}; anyone who changed a file could also have signed it again,
  so get the key or this fingerprint from the signer over a different channel)"""
VERIFY = """Hand-over of site {site}, run {run}

Start with handover.html. The files are:
{files}

To verify it without our program, run in this folder:
  sha256sum --check --strict {manifest}
  {signature}

To countersign: ssh-keygen -Y sign -f YOUR_KEY -n {namespace} {manifest}
and keep the resulting signature next to the archive.
"""


@dataclass(frozen=True)
class Written:
    """The path of a hand-over."""

    folder: Path
    archive: Path
    handover: HandOver


def hand_over(session: Session, record: RunRecord, output: Path | None, key: Key | None) -> Written:
    """Writes the hand-over of an accepted site, and adds its baseline to the record.

    Raises ConfigError if the path exists or cannot be written; CommandFailed if the key does not sign.
    """
    name = f"handover-{session.site.name}-{session.run}"
    folder = _new_folder((output or session.folder_of_run).absolute() / name)
    enclosed, left = _evidence(session, folder)
    facts = [
        _copied(folder, session.folder_of_run / kept.path, kept.path) for kept in record.evidence
    ]
    files = (*(one for one in facts if one), *enclosed)
    handed = HandOver(
        signer=key.fingerprint if key else "",
        archive=f"{name}.tar",
        enclosed=len(files),
        not_enclosed=left,
    )
    record = record.model_copy(update={"handover": handed, "evidence": files})
    baseline = baseline_of(session, record)
    _write(folder / BASELINE, session.redact(baseline.model_dump_json(indent=1)))
    handed = _report(session, record, folder)
    _write(folder / "README.txt", _readme(record, key, folder))
    _write(folder / MANIFEST, "".join(_manifest(folder)))
    if key:
        signing.sign(key, folder / MANIFEST)
    packed = folder.with_name(f"{name}.tar")
    archive.pack(folder, packed)
    with packed.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    keep_baseline(session, baseline, packed.name, digest, handed.signer)
    return Written(folder, packed, handed)


def require_place(output: Path) -> None:
    """Raises ConfigError if nothing can be written below that folder, which may not exist yet."""
    whole = output.absolute()
    there = next(place for place in (whole, *whole.parents) if os.path.exists(place))  # noqa: PTH110 - it never raises
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(f"{output} cannot be written", "name a folder that you own with --output")


def _new_folder(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise ConfigError(f"{folder} already exists", "name another folder with --output") from None
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be created ({error.strerror})",
            "name a folder that you own with --output",
        ) from None
    return folder


def _evidence(session: Session, folder: Path) -> tuple[tuple[KeptFile, ...], tuple[str, ...]]:
    """All evidence of the record as JSON, and those of its files that are unchanged since they were read."""
    kept: list[KeptFile] = []
    left: list[str] = []
    told: list[dict[str, object]] = []
    for one in recorded(session):
        names = {}
        for number, file in enumerate(one.evidence.files):
            place = (
                f"evidence/{one.run}/{one.evidence.benchmark}/{_name(one.evidence, number, file)}"
            )
            if why := _unfit(file):
                left.append(f"{file.path} (SHA-256 {file.sha256[:16]}…): {why}")
            elif (copy := _copied(folder, Path(file.path), place)) and copy.sha256 == file.sha256:
                kept.append(copy)
                names[file.path] = place
            else:
                (folder / place).unlink(missing_ok=True)
                left.append(f"{file.path} (SHA-256 {file.sha256[:16]}…): changed while it was read")
        entered = {"run": one.run, "entered": one.time.isoformat(), "enclosed": names}
        told.append(entered | {"evidence": one.evidence.model_dump(mode="json")})
    _write(folder / "evidence.json", session.redact(json.dumps(told, indent=1)))
    return tuple(dict.fromkeys(kept)), tuple(dict.fromkeys(left))


def _name(evidence: Evidence, number: int, file: EvidenceFile) -> str:
    """Logs of several hosts can have the same name: each gets its number and part."""
    base = Path(file.path).name
    return base if not file.part else f"{number + 1:02}-{file.part}-{base}"


def _unfit(file: EvidenceFile) -> str:
    """Why a file of evidence is not enclosed; "" if it is."""
    path = Path(file.path)
    try:
        with opened(path) as source:
            if os.fstat(source.fileno()).st_size > LARGEST:
                return f"larger than {LARGEST >> 20} MiB"
            digest = hashlib.file_digest(source, "sha256").hexdigest()
    except OSError as error:
        return f"no longer readable ({error.strerror})"
    return "" if digest == file.sha256 else "changed since it was recorded"


def _copied(folder: Path, source: Path, place: str) -> KeptFile | None:
    """A copy inside the hand-over; None if there is nothing to copy."""
    there = folder / place
    there.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with opened(source) as file, there.open("wb") as copy:
            shutil.copyfileobj(file, copy)
    except OSError:
        return None
    content = there.read_bytes()
    return KeptFile(path=place, sha256=hashlib.sha256(content).hexdigest(), size=len(content))


def _report(session: Session, record: RunRecord, folder: Path) -> HandOver:
    """Writes the report as HTML, as PDF if a browser is installed, and as JSON, which contains the reason for a missing PDF."""
    from appliance.report.html import render

    record = session.redact.texts(told(record, session.address))
    page = folder / "handover.html"
    _write(page, render(record))
    assert record.handover is not None
    handed = record.handover.model_copy(update={"pdf": _printed(page, folder / "handover.pdf")})
    _write(
        folder / RECORD, record.model_copy(update={"handover": handed}).model_dump_json(indent=1)
    )
    return handed


def _printed(page: Path, pdf: Path) -> str:
    """Why there is no PDF; "" if there is one. The browser loads nothing: the page references no other file."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), "")
    if not browser:
        return "no PDF: Chromium is not installed; print handover.html from a browser"
    # Root cannot use the sandbox.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    flags = ("--headless", *sandbox, "--disable-gpu", "--no-pdf-header-footer")
    with tempfile.TemporaryDirectory() as own:
        words = [browser, *flags, f"--user-data-dir={own}", f"--print-to-pdf={pdf}", page.as_uri()]
        try:
            process.run(words, timeout=PRINTING_S)
        except ApplianceError as error:
            pdf.unlink(missing_ok=True)
            return f"no PDF: {error.message}; print handover.html from a browser"
    return "" if pdf.is_file() else f"no PDF: {browser} produced none"


def _readme(record: RunRecord, key: Key | None, folder: Path) -> str:
    check = f"ssh-keygen -Y verify -f ALLOWED_SIGNERS -I NAME -n {signing.NAMESPACE} -s {SIGNATURE} < {MANIFEST}"
    signature = check + SIGNED_BY.format(fingerprint=key.fingerprint) if key else UNSIGNED
    there = {
        name: what for name, what in FILES.items() if name == MANIFEST or (folder / name).exists()
    }
    return VERIFY.format(
        files="\n".join(f"  {name:<16} {what}" for name, what in there.items()),
        site=record.site,
        run=record.run,
        manifest=MANIFEST,
        signature=signature,
        namespace=signing.NAMESPACE,
    )


def _manifest(folder: Path) -> Iterator[str]:
    """Lines in the format of sha256sum(1)."""
    for name in sorted(_names(folder)):
        with (folder / name).open("rb") as file:
            yield f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n"


def _names(folder: Path) -> Iterable[str]:
    return (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _write(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")
