"""Packs the program as the file that a GPU host stores: with the probe, the stages' collectors, and their ids."""

from functools import cache
from pathlib import Path

from appliance.probe import bundle

HERE = Path(__file__).parent
SHEBANG = b"#!/usr/bin/python3 -ISB\n"
START = b"import sys\nfrom appliance.watch.command import main\nsys.exit(main())\n"


@cache
def executable() -> bytes:
    """Return the file /usr/local/sbin/appliance-watch, the same bytes for the same sources."""
    own = [path for path in sorted(HERE.glob("*.py")) if path.name not in bundle.STAYS]
    files = [(f"appliance/watch/{path.name}", path.read_bytes()) for path in own]
    carried = [(name, path.read_bytes() if path else b"") for name, path in bundle.sources()]
    ids = sorted(bundle.STAGES.glob("*/ids.py"))
    carried += [(f"appliance/stages/{path.parent.name}/ids.py", path.read_bytes()) for path in ids]
    return bundle.packed([*carried, *files, ("__main__.py", START)], before=SHEBANG)
