"""Writes the golden record anew, a part of ``make golden``: read the difference before it is committed."""

import json
import tempfile
from pathlib import Path

from tests.golden import console
from tests.golden.compact import compact
from tests.golden.record import BESIDE, DIFFERENCES, FULL, RECORD, difference, full
from tests.golden.sizes import SIZES, SUMMARY, pattern, seen, summary


def main() -> None:
    """One site in full, the others as differences, and counts of sites of several sizes."""
    for file, text in full().items():
        (RECORD / FULL / file).write_text(text)
    DIFFERENCES.write_text("\n".join(difference(name) for name in BESIDE))
    sizes = {}
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            sizes[size] = summary(seen(Path(folder), size, pattern(size)))
    SUMMARY.write_text(compact(json.loads(json.dumps(sizes))) + "\n")
    console.write()


if __name__ == "__main__":
    main()
