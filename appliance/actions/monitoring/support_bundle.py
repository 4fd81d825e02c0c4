"""Support bundle: one archive with what a site is judged by, and logs, configuration and vendor reports of its hosts."""

import base64
import json
import re
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import Field, ValidationError

from appliance import __version__
from appliance.actions.monitoring.health import judged
from appliance.actions.sites import reports
from appliance.actions.sites.opening import Target, locate, open_session
from appliance.adapters.json_answers import parsed
from appliance.adapters.support_archive import Writer, writing
from appliance.config.bounded_files import TooLarge, read_bytes
from appliance.engine.host_names import named_hosts
from appliance.engine.look import bundled
from appliance.engine.look.gather import PYTHON, Round
from appliance.engine.look.survey import survey
from appliance.engine.session import Session
from appliance.engine.threads import threads
from appliance.errors import ApplianceError
from appliance.models.base import Model
from appliance.models.events import Observer
from appliance.models.line import Line
from appliance.models.result import CheckResult, Verdict, overall
from appliance.models.site import Role
from appliance.report.documents import Health
from appliance.report.findings import findings
from appliance.stages.catalog import WATCHED_UNITS
from appliance.support.bundle import command, payload
from appliance.support.collect import ROOM
from appliance.support.shapes import masked
from appliance.text import plural

DEADLINE = 60.0
AT_ONCE = 8
"""Hosts that are read at once; each may send 16 MiB."""
MOST_PARTS = 4096
NAME = re.compile(r"(?!.*(?:^|/)\.{0,2}(?:/|$))[A-Za-z0-9][A-Za-z0-9 @:+,=._/-]{0,400}")
LONGEST_NAME = 400


class SentPart(Model):
    """One line of a host's answer: a text as zlib in base64, and what is missing of it."""

    name: str = Field(pattern=r"^[A-Za-z0-9]", max_length=LONGEST_NAME)
    size: int = Field(ge=0)
    missing: Line = ""
    text: str = ""


@dataclass
class HostPart:
    """What the bundle has of one host. ``cause``: why it has nothing; ``missing``: name and reason."""

    host: str
    files: dict[str, int] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    cause: str = ""

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(self.files.values())


@dataclass(frozen=True)
class Bundle:
    """A written bundle, and the verdict of health in it."""

    path: Path
    site: str
    size: int
    verdict: Verdict
    hosts: tuple[HostPart, ...]
    missing: tuple[str, ...]
    """Parts of the site itself."""

    @property
    def is_whole(self) -> bool:
        """Whether every host answered."""
        return not any(part.cause for part in self.hosts)


def make(
    target: Target, observer: Observer, hosts: Sequence[str], since: timedelta, output: Path | None
) -> Bundle:
    """Writes the bundle; hosts that cannot be read are named in it. Raises ConfigError if the file exists."""
    with open_session(target, "support-bundle", observer, only_looks=True) as session:
        names = [host.name for host in session.site.hosts]
        chosen = named_hosts(hosts, names, flag="--hosts") or tuple(names)
        top = f"support-{session.site.name}-{session.run}"
        path = (output or Path(f"{top}.tar.gz")).absolute()
        with writing(path, top) as archive:
            contents = _Contents(session, archive)
            taken, began = datetime.now(UTC), time.monotonic()
            found = survey(session)
            contents.judge(found, taken, time.monotonic() - began)
            contents.site(target)
            parts = _read_hosts(contents, found, chosen, taken - since)
            contents.index(parts, taken, since)
        return Bundle(
            path,
            session.site.name,
            path.stat().st_size,
            contents.verdict,
            tuple(parts),
            tuple(contents.missing),
        )


class _Contents:
    """The files of a bundle; the secrets of the site are removed from every text."""

    def __init__(self, session: Session, archive: Writer) -> None:
        self.session, self._archive = session, archive
        self.files: dict[str, int] = {}
        self.missing: list[str] = []
        self.verdict = Verdict.INCOMPLETE
        self.results: list[CheckResult] = []

    def judge(self, found: Round, taken: datetime, seconds: float) -> None:
        """What ``health --bundle`` reads, then the verdict of today."""
        lines, is_all = bundled.journal_lines(self.session)
        if not is_all:
            self.missing.append(f"{bundled.FOLDER}/{bundled.JOURNAL}: its end; it is too large")
        for name, text in (
            *bundled.documents(self.session, found, taken, seconds),
            (bundled.JOURNAL, lines),
        ):
            self._add(f"{bundled.FOLDER}/{name}", text)
        self.results, _ = judged(self.session, found)
        self.verdict = overall(self.results)
        document = Health(
            site=self.session.site.name,
            verdict=self.verdict,
            seconds=round(seconds, 3),
            simulated=self.session.site.simulated,
            results=tuple(self.results),
            taken=taken,
        )
        texts = bundled.masked_texts(document.model_dump(mode="json"))
        self._add("health.json", json.dumps(texts, indent=1))

    def site(self, target: Target) -> None:
        """The site's own files, and the last report."""
        for file in locate(target).sources:
            self._copy(f"site/{file.name}", file)
        try:
            folder = reports.load(self.session.runs).folder
        except ApplianceError as error:
            self.missing.append(f"report/: {error.message}")
            return
        for name in ("report.json", "report.html"):
            self._copy(f"report/{folder.name}/{name}", folder / name)

    def _copy(self, name: str, file: Path) -> None:
        try:
            self.text(name, read_bytes(file, 32 << 20).decode("utf-8", "replace"))
        except OSError as error:
            self.missing.append(f"{name}: {error.strerror or error}")
        except TooLarge:
            self.missing.append(f"{name}: larger than 32 MB")

    def text(self, name: str, text: str) -> int:
        """A text of this machine, in which unknown secrets are masked as well."""
        return self._add(name, self.session.redact(masked(text)))

    def of_host(self, name: str, text: str) -> int:
        """A text of a host, which has masked what looks like a secret."""
        return self._add(name, self.session.redact(text))

    def _add(self, name: str, text: str) -> int:
        size = self.files[name] = self._archive.add(name, text)
        return size

    def index(self, parts: Iterable[HostPart], taken: datetime, since: timedelta) -> None:
        """The page that lists what is inside, what was left out, and why."""
        self.text("index.md", "\n".join(_index(self, parts, taken, since)) + "\n")


def _read_hosts(
    contents: _Contents, found: Round, hosts: Sequence[str], since: datetime
) -> list[HostPart]:
    """Logs and reports of these hosts, each in one round trip."""
    session = contents.session
    control = [h.name for h in session.site.with_role(Role.CONTROL) if h.name in found.facts]
    request = {
        "since": since.timestamp(),
        "units": list(WATCHED_UNITS),
        "namespaces": sorted({"kube-system", *_release_namespaces(control, found)})
        if session.site.kubernetes
        else [],
    }
    room = threading.Semaphore(AT_ONCE)

    def work(host: str) -> HostPart:
        if host in found.unanswered:
            return HostPart(host, cause=found.unanswered[host].cause)
        with room:
            part = _read_host(contents, host, {**request, "is_first": host in control[:1]})
        session.remote.leave(host)
        return part

    with threads(AT_ONCE) as pool:
        return list(pool.map(work, hosts))


def _release_namespaces(control: Sequence[str], found: Round) -> set[str]:
    """Namespaces of charts, as a control host reports them: another host must not choose whose logs are read."""
    scheduler = next((s for name in control if (s := found.facts[name].scheduler)), None)
    return {r.namespace for r in scheduler.releases or ()} if scheduler else set()


def _read_host(contents: _Contents, host: str, request: dict[str, object]) -> HostPart:
    part, began = HostPart(host), time.monotonic()
    try:
        done = contents.session.remote.run(
            host, command(PYTHON), input=payload(request), timeout=DEADLINE
        )
    except ApplianceError as error:
        part.cause = error.message
        return part
    left = ROOM
    for sent in _sent(done.stdout, part):
        octets = _unpacked(sent, left)
        if octets is None:
            part.missing[sent.name] = "it cannot be read, or exceeds the limit of the host"
            continue
        left -= len(octets)
        if sent.missing:
            part.missing[sent.name] = contents.session.redact(masked(sent.missing))
        if octets:
            name = f"hosts/{host}/{sent.name}"
            part.files[sent.name] = contents.of_host(name, octets.decode("utf-8", "replace"))
    if not part.files and not part.cause:
        said = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        part.cause = contents.session.redact(masked(f"the program did not run: {said}"))
    part.seconds = time.monotonic() - began
    return part


def _sent(answer: str, part: HostPart) -> Iterator[SentPart]:
    """The parts that a host sent, each name once; other lines are of its login scripts."""
    seen: set[str] = set()
    for line in answer.splitlines()[-MOST_PARTS:]:
        try:
            sent = SentPart.model_validate(parsed(line))
        except (ValueError, ValidationError):
            continue
        if NAME.fullmatch(sent.name) and sent.name not in seen:
            seen.add(sent.name)
            yield sent
        else:
            part.missing["a part with an invalid name"] = "refused"


def _unpacked(sent: SentPart, room: int) -> bytes | None:
    """The text of a part; None if it is larger than ``room``, or no zlib."""
    if not sent.text:
        return b""
    try:
        unpack = zlib.decompressobj()
        octets = unpack.decompress(base64.b64decode(sent.text, validate=True), room + 1)
    except (ValueError, zlib.error):
        return None
    return None if len(octets) > room or not unpack.eof else octets


INSIDE = """
| part | holds |
|---|---|
| `index.md` | this page |
| `health.json` | the verdict and all results of the checks, as `appliance health --json` prints them |
| `judge/` | the site, the hosts' facts, and the site's journal. `appliance health --bundle FILE` judges them again |
| `site/` | the files of the site and its profile |
| `report/` | the last report |
| `hosts/NAME/` | journal, kernel log and logs of the window; configuration that the product wrote; receipts; state of services, GPUs, fabric, Slurm and Kubernetes; reports of vendors' programs |

Secrets of the site are removed in all their encodings, and what looks like a secret is masked as `***`. Files that only root may
read are not copied. The audit log of Kubernetes, core dumps, and files of users are never read.
""".strip()


def _index(
    contents: _Contents, parts: Iterable[HostPart], taken: datetime, since: timedelta
) -> Iterator[str]:
    session = contents.session
    yield f"# Support bundle of site {session.site.name}\n"
    yield f"Taken {taken:%Y-%m-%d %H:%M:%S} UTC by appliance {__version__}. Logs since {taken - since:%Y-%m-%d %H:%M} UTC. Profile {session.classes}.\n"
    yield f"## Health: {contents.verdict.value}\n"
    for finding in findings(contents.results):
        result = finding.result
        if result.required or finding.explains:
            yield f"- **{result.status.value}** `{result.id}` {result.target}: {result.cause}"
            yield from (
                f"  - {line}"
                for line in (finding.more, result.fix and f"fix: {result.fix}")
                if line
            )
    yield f"\n## Contents\n\n{INSIDE}\n"
    if contents.missing:
        yield "Left out:\n"
        yield from (f"- {line}" for line in contents.missing)
    for part in parts:
        yield f"\n## {part.host}\n"
        if part.cause:
            yield f"Not read: {part.cause}"
            continue
        yield f"{plural(len(part.files), 'file')}, {part.size:,} bytes, read in {part.seconds:.1f} s.\n"
        yield from (f"- `{name}` {size:,}" for name, size in sorted(part.files.items()))
        if part.missing:
            yield "\nCut or left out:\n"
            yield from (f"- `{name}`: {why}" for name, why in sorted(part.missing.items()))
