"""Writes the golden record anew, a part of ``make golden``: read the difference before it is committed."""

import json
import shutil
import tempfile
from pathlib import Path

from tests.golden.record import RECORD, SITES, recorded
from tests.golden.sizes import SIZES, SUMMARY, pattern, seen, summary


def main() -> None:
    """All sites; what is no longer made goes."""
    for name in SITES:
        shutil.rmtree(RECORD / name, ignore_errors=True)
        (RECORD / name).mkdir(parents=True)
        with tempfile.TemporaryDirectory() as folder:
            for file, text in recorded(name, Path(folder)).items():
                (RECORD / name / file).write_text(text)
    sizes = {}
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            sizes[size] = summary(seen(Path(folder), size, pattern(size)))
    SUMMARY.write_text(json.dumps(sizes, indent=1) + "\n")


main()
