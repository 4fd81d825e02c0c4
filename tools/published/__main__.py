"""Writes all that is generated; with the word ``built``, only what is in no repository."""

import sys
from pathlib import Path

from tools.published import built, committed, strays, write

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Built files first: pages may link to them."""
    files = built()
    for file in strays(ROOT, files):
        file.unlink()
    write(ROOT, files)
    if sys.argv[1:] != ["built"]:
        write(ROOT, committed(ROOT))


if __name__ == "__main__":
    main()
