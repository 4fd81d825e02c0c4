"""Makes the files of a release in dist/: python -m tools.release wheels | all.

``wheels``: both wheels and the lock by which pip installs them. ``all``: also the bill of materials, the release notes,
and SHA256SUMS of all files. The same commit gives the same bytes.
"""

import hashlib
import re
import subprocess  # noqa: TID251 - runs the builder
import sys
from pathlib import Path

from appliance import __version__

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
LOCK, SUMS, BILL, NOTES = "appliance.lock", "SHA256SUMS", "appliance.cdx.json", "RELEASE_NOTES.md"
PROJECTS = (ROOT, ROOT / "packages/lab")
"""The customer's program, and the virtual rack."""


def wheels(folder: Path) -> None:
    """Both wheels, and the lock: pip installs the program from it, and refuses any other file."""
    for project in PROJECTS:
        command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
        subprocess.run(command, cwd=project, check=True, stdout=subprocess.DEVNULL)
    name = f"appliance-{__version__}-py3-none-any.whl"
    packages = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    (folder / LOCK).write_text(
        f"{packages}./{name} \\\n    --hash=sha256:{_digest(folder / name)}\n", encoding="utf-8"
    )


def everything(folder: Path) -> None:
    """What is published: wheels, lock, bill of materials, notes and digests."""
    # A library of development.
    from tools import bill

    wheels(folder)
    program = folder / f"appliance-{__version__}-py3-none-any.whl"
    (folder / BILL).write_text(bill.of(program, folder / LOCK), encoding="utf-8")
    (folder / NOTES).write_text(notes(), encoding="utf-8")
    files = sorted(file for file in folder.iterdir() if file.name != SUMS)
    sums = "".join(f"{_digest(file)}  {file.name}\n" for file in files)
    (folder / SUMS).write_text(sums, encoding="utf-8")


def notes() -> str:
    """The release notes of this version: docs/releases/VERSION.md; a release candidate has those of its release."""
    release = re.sub(r"rc\d+$", "", __version__)
    return (ROOT / f"docs/releases/{release}.md").read_text(encoding="utf-8")


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def main() -> None:
    """Run by make wheel and make release."""
    DIST.mkdir(exist_ok=True)
    for file in DIST.iterdir():
        file.unlink()
    {"wheels": wheels, "all": everything}[sys.argv[1]](DIST)
    sys.stdout.writelines(f"{file}\n" for file in sorted(DIST.iterdir()))


if __name__ == "__main__":
    main()
