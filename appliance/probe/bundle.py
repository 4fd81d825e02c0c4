"""Packs a program on the control machine into one archive that is sent in one SSH round trip."""

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER
from marshal import dumps
from pathlib import Path

HERE = Path(__file__).parent
STAGES = HERE.parent / "stages"
STAYS = frozenset({"bundle.py"})
EPOCH = (1980, 1, 1, 0, 0, 0)
UNCHECKED = MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
"""Header of bytecode that is not compared with its source (PEP 552); another Python version reads the source."""
LEVEL = 6
"""Compression level: 4 takes half as long, for 5 % more bytes."""

BOOTSTRAP = """
import sys
def no(why):
    sys.stderr.write(why + "\\n")
    sys.stdout.write('{"error": "' + why.replace('"', "'").replace("\\\\", "/") + '"}\\n')
    sys.exit(2)
if sys.version_info < (3, 8):
    no("%(what)s needs Python 3.8 or newer, this host has " + sys.version.split()[0])
import os, zlib
if not hasattr(os, "memfd_create"):
    no("%(what)s needs memfd_create, which this host's Python lacks")
take = sys.stdin.buffer
program = take.read(int.from_bytes(take.read(8), "big"))
try:
    fd = os.memfd_create("appliance")
    os.write(fd, zlib.decompress(program))
    sys.path.insert(0, "/proc/self/fd/" + str(fd))
    from %(module)s import main
except (OSError, ImportError, zlib.error) as error:
    no("%(what)s could not be loaded: " + str(error))
main(take.read())
"""


@cache
def program() -> bytes:
    """Return the probe as a zip archive; equal sources give equal bytes."""
    return packed((name, path.read_bytes() if path else b"") for name, path in sources())


@cache
def compiled() -> bytes:
    """Return the same with bytecode, which saves a host with this Python version from compiling 6,000 lines.

    Another Python reads the sources. Sent, it is three times as large.
    """
    return packed(entry for name, path in sources() for entry in _with_bytecode(name, path))


def _with_bytecode(name: str, path: Path | None) -> Iterator[tuple[str, bytes]]:
    yield name, path.read_bytes() if path else b""
    if path is not None:
        code = SourceFileLoader(name, str(path)).get_code(name)
        yield f"{name}c", UNCHECKED + dumps(code)


def sources() -> Iterator[tuple[str, Path | None]]:
    """Return names in the archive and their files: the probe, and the collectors of each stage, in empty packages."""
    for path in sorted(HERE.rglob("*.py")):
        if path.name not in STAYS:
            yield f"appliance/probe/{path.relative_to(HERE)}", path
    yield "appliance/stages/__init__.py", None
    for stage in sorted(path.parent for path in STAGES.glob("*/ids.py")):
        for path in (*stage.glob("collect.py"), *sorted(stage.glob("collect/*.py"))):
            yield f"appliance/stages/{path.relative_to(STAGES)}", path
        yield f"appliance/stages/{stage.name}/__init__.py", None


def packed(files: Iterable[tuple[str, bytes]], before: bytes = b"") -> bytes:
    """Return files of the package ``appliance`` as a zip archive with an interpreter line.

    The archive is not compressed: compressing all files together saves a third more than each alone.
    """
    kind = zipfile.ZIP_DEFLATED if before else zipfile.ZIP_STORED
    into = io.BytesIO()
    into.write(before)
    with zipfile.ZipFile(into, "a", kind) as archive:
        for name, content in (("appliance/__init__.py", b""), *files):
            entry = zipfile.ZipInfo(name, EPOCH)
            archive.writestr(entry, content, kind, compresslevel=9)
    return into.getvalue()


@cache
def executable(module: str) -> bytes:
    """Return a program of the probe as a file to install on a host; ``main`` returns its exit status."""
    start = f"import sys\nfrom {module} import main\nsys.exit(main())\n".encode()
    carried = [(name, path.read_bytes() if path else b"") for name, path in sources()]
    return packed([*carried, ("__main__.py", start)], before=b"#!/usr/bin/python3 -ISB\n")


@cache
def sent(archive: bytes) -> bytes:
    """Return an archive as it is sent; made once for all hosts."""
    return zlib.compress(archive, LEVEL)


def bootstrap(module: str = "appliance.probe.__main__", what: str = "the probe") -> str:
    """Return source for ``python3 -c`` that loads a program from standard input and runs its ``main``."""
    return BOOTSTRAP % {"module": module, "what": what}


def command(python: str = "python3", source: str = "") -> list[str]:
    """Return the command for the host; it ignores its environment, folder, site packages and .pyc files."""
    return [python, "-I", "-S", "-B", "-c", source or bootstrap()]


def payload(request: dict[str, object], archive: bytes = b"") -> bytes:
    """Return standard input for ``command``: length of the program, the program, the request."""
    carried = sent(archive or program())
    return len(carried).to_bytes(8, "big") + carried + json.dumps(request).encode()
