"""Packs the program for hosts: as the file that a host stores, and as the payload of one SSH round trip."""

from functools import cache
from pathlib import Path

from appliance.probe import bundle

HERE = Path(__file__).parent
PROBE = (
    "__init__.py",
    "files.py",
    "lines.py",
    "mig.py",
    "mounts.py",
    "nvml.py",
    "places.py",
    "problems.py",
)
"""Modules that it shares with the probe."""
SHEBANG = b"#!/usr/bin/python3 -ISB\n"
START = b"import sys\nfrom appliance.mig.command import main\nsys.exit(main())\n"


@cache
def program() -> bytes:
    """Return the archive without an entry point, the same bytes for the same sources."""
    return bundle.packed(_files())


@cache
def executable() -> bytes:
    """Return the file /usr/local/sbin/appliance-mig."""
    return bundle.packed([*_files(), ("__main__.py", START)], before=SHEBANG)


def command(python: str = "python3") -> list[str]:
    """Return the command that answers a request on a host."""
    return bundle.command(python, bundle.bootstrap("appliance.mig.__main__", "appliance-mig"))


def payload(request: dict[str, object]) -> bytes:
    """Return the standard input for ``command``."""
    return bundle.payload(request, program())


def _files() -> list[tuple[str, bytes]]:
    own = [path for path in sorted(HERE.glob("*.py")) if path.name != "bundle.py"]
    shared = [HERE.parent / "probe" / name for name in PROBE]
    return [
        (f"appliance/{path.relative_to(HERE.parent)}", path.read_bytes()) for path in own + shared
    ]
