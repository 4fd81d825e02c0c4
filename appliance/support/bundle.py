"""Packs the program for one SSH round trip."""

from functools import cache
from pathlib import Path

from appliance.probe import bundle

HERE = Path(__file__).parent


@cache
def program() -> bytes:
    """Return the probe and this program as one archive, the same bytes for the same sources."""
    own = [path for path in sorted(HERE.glob("*.py")) if path.name != "bundle.py"]
    shared = [(name, path.read_bytes() if path else b"") for name, path in bundle.sources()]
    return bundle.packed([*shared, *((f"appliance/support/{p.name}", p.read_bytes()) for p in own)])


def command(python: str = "python3") -> list[str]:
    """Return the command that answers a request on a host."""
    return bundle.command(
        python, bundle.bootstrap("appliance.support.collect", "the program of support-bundle")
    )


def payload(request: dict[str, object]) -> bytes:
    """Return the standard input for ``command``."""
    return bundle.payload(request, program())
