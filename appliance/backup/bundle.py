"""Packs the program into the file that a control host stores."""

from functools import cache
from pathlib import Path

from appliance.probe import bundle

HERE = Path(__file__).parent
SHEBANG = b"#!/usr/bin/python3 -ISB\n"
START = b"import sys\nfrom appliance.backup.command import main\nsys.exit(main())\n"


@cache
def executable() -> bytes:
    """Return the file /usr/local/sbin/appliance-backup, the same bytes for the same sources."""
    own = [path for path in sorted(HERE.glob("*.py")) if path.name != "bundle.py"]
    files = [(f"appliance/backup/{path.name}", path.read_bytes()) for path in own]
    return bundle.packed([*files, ("__main__.py", START)], before=SHEBANG)
