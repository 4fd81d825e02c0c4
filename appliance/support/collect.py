"""Reads a request from standard input and prints one JSON line for each thing read, and for each that was not.

Nothing changes on the host, but for a folder in /run while vendors' programs write their reports. All text is masked here
(shapes.py), before it leaves.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import sys
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from appliance.probe import files, places
from appliance.probe.ask import Ask
from appliance.probe.collectors import receipts
from appliance.probe.problems import Absent
from appliance.support import table
from appliance.support.bounded import Tail, end_of, output
from appliance.support.shapes import masked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


WHOLE_S, LAST_S = 42.0, 52.0
"""Seconds from the start after which nothing is waited for, and nothing is masked; the control machine waits for 60."""
PROGRAM_S, REPORT_S = 20.0, 40.0
ROOM = 50_000_000
"""Bytes of text of one host."""
ROOM_PACKED = 11 << 20
"""Bytes as they travel: the control machine reads at most 16 MiB from a host, in base64."""
MOST, MOST_JOURNAL, MOST_REPORT, MOST_FILE = 2_000_000, 8_000_000, 12_000_000, 256_000
"""Bytes of a program's output or a log, of a part of the journal, of a vendor's report, of a file of configuration."""
MOST_LOGS, MOST_FILES, MOST_PODS = 100, 400, 100
WORKERS = 4
ADAPTERS = "/sys/class/infiniband"
CONFIGURATION = ("/etc/", "/var/lib/appliance/")
NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
OPEN = 0o004


class Part:
    """A text and what is missing of it; without a text why there is none."""

    def __init__(self, text: str = "", missing: str = "", size: int = 0) -> None:
        self.text, self.missing, self.size = text, missing, size


class Request:
    """``since``: seconds since 1970; ``is_first``: whether this host reads what concerns the whole cluster."""

    def __init__(self, said: dict[str, Any], ask: Ask) -> None:
        self.ask = ask
        self.since = float(said["since"])
        self.units = [str(unit) for unit in said["units"]]
        self.namespaces = [n for n in map(str, said["namespaces"]) if NAMESPACE.fullmatch(n)]
        self.is_first = said["is_first"] is True
        self.began = time.monotonic()

    def left(self, most: float) -> float:
        """Seconds that something may take."""
        return max(0.1, min(most, self.began + WHOLE_S - time.monotonic()))


def main(request: bytes) -> None:
    """Answer and leave at once, whatever thread still waits."""
    with suppress(OSError):
        os.nice(19)
    for line in answer(json.loads(request)):
        sys.stdout.write(line + "\n")
    sys.stdout.flush()
    os._exit(0)


def answer(said: dict[str, Any], root: str = "") -> Iterator[str]:
    """The lines: name, size, what is missing, and the text as zlib in base64."""
    request = Request(said, Ask({}, root))
    room, packed_room = ROOM, ROOM_PACKED
    for name, part in _read(request):
        if time.monotonic() - request.began > LAST_S:
            part = Part(missing="no time was left for this host", size=part.size)
        text = masked(part.text).encode("utf-8", "replace")
        packed = zlib.compress(text, 6) if text else b""
        missing = part.missing
        if len(text) > room or len(packed) > packed_room:
            packed, missing = b"", "no room is left in this host's part of the bundle"
        else:
            room, packed_room = room - len(text), packed_room - len(packed)
        sent = base64.b64encode(packed).decode()
        yield json.dumps({"name": name, "size": part.size, "missing": missing, "text": sent})


def _read(request: Request) -> Iterator[tuple[str, Part]]:
    """Everything in the order of the table; the slow reports are started first."""
    pool = ThreadPoolExecutor(WORKERS)
    slow = [(name, pool.submit(_guarded, read)) for name, read in _reports(request)]
    quick = [
        (name, pool.submit(_guarded, read))
        for read_all in (_programs, _logs, _configuration)
        for name, read in read_all(request)
    ]
    for name, future in (*quick, *slow):
        try:
            yield name, future.result(request.left(WHOLE_S))
        except Exception as error:  # noqa: BLE001 - in Python 3.8 a timeout of futures is no TimeoutError
            future.cancel()
            yield name, Part(missing=f"not read within {WHOLE_S:g} s ({type(error).__name__})")


def _guarded(read: Callable[[], Part]) -> Part:
    try:
        return read()
    except Absent as error:
        return Part(missing=str(error))
    except OSError as error:
        return Part(missing=error.strerror or str(error))


def _programs(request: Request) -> Iterator[tuple[str, Callable[[], Part]]]:
    chosen = [*table.PROGRAMS, *(table.OF_CONTROL if request.is_first else ())]
    if request.is_first and request.namespaces:
        chosen += table.OF_CLUSTER
        for namespace in request.namespaces:
            chosen += [
                (name.format(namespace=namespace), _filled(argv, "{namespace}", namespace))
                for name, argv in table.OF_NAMESPACE
            ]
    for name, argv in chosen:
        most = MOST_JOURNAL if name.startswith("journal/") else MOST
        yield name, _program(request, argv, most)


def _program(request: Request, argv: tuple[str, ...], most: int) -> Callable[[], Part]:
    # "@": journalctl(1) and sacct(1) take no seconds alone.
    day = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(request.since))
    is_sacct = argv[0] == "sacct"
    words = [word.replace("{since}", day if is_sacct else f"@{request.since:.0f}") for word in argv]
    if "{units}" in words:
        words.remove("{units}")
        words += [f"--unit={unit}" for unit in request.units]

    def read() -> Part:
        tool = request.ask.tool(words[0])
        return _output([tool, *words[1:]], request.left(PROGRAM_S), most)

    return read


def _output(words: list[str], seconds: float, most: int, folder: str = "/") -> Part:
    done = output(words, seconds, most, folder)
    missing = ["its beginning"] if done.size > most else []
    if done.status is None:
        missing.append(f"it did not end within {seconds:.0f} s")
    elif done.status:
        missing.append(f"it ended with {done.status}")
    return Part(done.text, "; ".join(missing), done.size)


def _logs(request: Request) -> Iterator[tuple[str, Callable[[], Part]]]:
    named = [f"/var/log/{name}" for name in _listed(request, "/var/log") if _is_named(name)]
    for folder in table.LOGS:
        named += [f"{folder}/{name}" for name in _listed(request, folder) if name.endswith(".log")]
    for path in named[:MOST_LOGS]:
        yield f"logs{path[len('/var/log') :]}", _log(request, path, MOST)
    if request.ask.kmsg != "/dev/kmsg":
        yield "kernel/simulated.log", _log(request, request.ask.kmsg, MOST)
    count = 0
    for pod in _listed(request, table.CONTAINER_LOGS):
        if pod.partition("_")[0] not in request.namespaces:
            continue
        for path in _of_pod(request, f"{table.CONTAINER_LOGS}/{pod}"):
            count += 1
            if count <= MOST_PODS:
                yield f"logs{path[len('/var/log') :]}", _log(request, path, MOST // 4)


def _of_pod(request: Request, folder: str) -> list[str]:
    return [
        f"{folder}/{container}/{name}"
        for container in _listed(request, folder)
        for name in _listed(request, f"{folder}/{container}")
        if name.endswith(".log")
    ]


def _is_named(name: str) -> bool:
    return name.endswith(".log") and name.startswith(table.NAMED_LOGS)


def _listed(request: Request, folder: str) -> list[str]:
    try:
        return places.listed(request.ask.path(folder))
    except OSError:
        return []


def _log(request: Request, path: str, most: int) -> Callable[[], Part]:
    def read() -> Part:
        text, size = end_of(request.ask.path(path), most, request.since)
        return Part(text, "its beginning" if size > most else "", size)

    return read


def _configuration(request: Request) -> Iterator[tuple[str, Callable[[], Part]]]:
    """Receipts, and the files that they name, where every user of the host may read them."""
    ask = request.ask
    try:
        found = receipts.load(ask)
    except OSError as error:
        reason = error.strerror or str(error)
        yield "receipts", lambda: Part(missing=reason)
        return
    for stage in found:
        path = f"{receipts.FOLDER}/{stage}.json"
        yield f"receipts/{stage}.json", _file(request, path, is_closed=True)
    named = sorted({name for kind, name in receipts.resources(found) if kind == "file"})
    kept = [name for name in named if name.startswith(CONFIGURATION) and "/../" not in name]
    for path in kept[:MOST_FILES]:
        yield f"configuration{path}", _file(request, path)


def _file(request: Request, path: str, *, is_closed: bool = False) -> Callable[[], Part]:
    def read() -> Part:
        there = request.ask.path(path)
        state = places.status(there, follow=True)
        if not is_closed and not state.st_mode & OPEN:
            return Part(missing="closed to users of the host: it may hold secrets")
        if state.st_size > MOST_FILE * (20 if is_closed else 1):
            return Part(missing=f"larger than {MOST_FILE >> 10} KB", size=state.st_size)
        data = files.data(there)
        if b"\0" in data:
            return Part(missing="not text", size=len(data))
        return Part(data.decode("utf-8", "replace"), size=len(data))

    return read


def _reports(request: Request) -> Iterator[tuple[str, Callable[[], Part]]]:
    reports = [*table.REPORTS, *(table.OF_FABRIC if request.is_first else ())]
    for name, argv in reports:
        if "{adapter}" in argv:
            for adapter in files.names(request.ask.path(ADAPTERS)):
                filled = _filled(argv, "{adapter}", adapter)
                yield name.format(adapter=adapter), _report(request, filled)
        else:
            yield name, _report(request, argv)


def _filled(argv: tuple[str, ...], what: str, word: str) -> tuple[str, ...]:
    return tuple(part.replace(what, word) for part in argv)


def _report(request: Request, argv: tuple[str, ...]) -> Callable[[], Part]:
    def read() -> Part:
        tool = request.ask.tool(argv[0])
        folder = tempfile.mkdtemp(prefix="appliance-support-", dir=request.ask.path("/run"))
        try:
            words = [tool, *argv[1:]]
            words = [
                w.replace("{file}", f"{folder}/report").replace("{folder}", folder) for w in words
            ]
            part = _output(words, request.left(REPORT_S), MOST_REPORT, folder)
            return _with_written(part, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return read


def _with_written(part: Part, folder: str) -> Part:
    """The output of a program, followed by the files that it wrote."""
    texts, size, is_cut = [part.text], part.size, False
    for name in sorted(os.listdir(folder)):  # noqa: PTH208
        tail = Tail(MOST_REPORT)
        with suppress(OSError, EOFError, zlib.error), open(f"{folder}/{name}", "rb") as file:  # noqa: PTH123
            source = gzip.GzipFile(fileobj=file) if name.endswith(".gz") else file
            while tail.size <= MOST_REPORT and (piece := source.read(1 << 20)):
                tail.add(piece)
        is_cut = is_cut or tail.size > MOST_REPORT
        size += tail.size
        texts.append(f"==> {name} <==\n{tail.text()}")
    text = "\n".join(texts)
    missing = [said for said in (part.missing, "parts of its files" if is_cut else "") if said]
    return Part(text[:MOST_REPORT], "; ".join(missing), size)
