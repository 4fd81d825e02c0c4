"""Packs the probe on the control host into what one SSH round trip carries."""

import io
import json
import zipfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
STAYS = frozenset({"bundle.py"})
EPOCH = (1980, 1, 1, 0, 0, 0)

BOOTSTRAP = """
import sys
def no(why):
    sys.stderr.write(why + "\\n")
    sys.stdout.write('{"error": "' + why.replace('"', "'").replace("\\\\", "/") + '"}\\n')
    sys.exit(2)
if sys.version_info < (3, 8):
    no("the probe needs Python 3.8 or newer, this host has " + sys.version.split()[0])
import os
if not hasattr(os, "memfd_create"):
    no("the probe needs memfd_create, which this host's Python lacks")
take = sys.stdin.buffer
program = take.read(int.from_bytes(take.read(8), "big"))
try:
    fd = os.memfd_create("probe")
    os.write(fd, program)
    sys.path.insert(0, "/proc/self/fd/%d" % fd)
    from appliance.probe.__main__ import main
except (OSError, ImportError) as error:
    no("the probe could not be loaded: " + str(error))
main(take.read())
"""


@cache
def program() -> bytes:
    """The probe as a zip archive, the same bytes for the same sources."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "appliance/__init__.py", b"")
        for path in sorted(HERE.rglob("*.py")):
            if path.name not in STAYS:
                _add(archive, f"appliance/probe/{path.relative_to(HERE)}", path.read_bytes())
    return packed.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content, compresslevel=9)


def bootstrap() -> str:
    """Source for ``python3 -c``: loads the program from standard input into memory and runs it."""
    return BOOTSTRAP


def command(python: str = "python3") -> list[str]:
    """The command to start on the host, blind to its environment, folder, site packages and .pyc files."""
    return [python, "-I", "-S", "-B", "-c", bootstrap()]


def payload(request: dict[str, object]) -> bytes:
    """Standard input for ``command``: length of the program, the program, the request."""
    return len(program()).to_bytes(8, "big") + program() + json.dumps(request).encode()
