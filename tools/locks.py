"""Writes the three locks: python -m tools.locks [NAME ...] raises the named packages, and keeps all other versions.

uv reads pyproject.toml, and writes each package that any supported Python needs, with the hashes of its files.
"""

import subprocess  # noqa: TID251 - uv has no other door
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUNTIME, BUILD, DEV = "requirements.lock", "requirements-build.lock", "requirements-dev.lock"
OPTIONS = (
    "--universal",
    "--generate-hashes",
    "--no-annotate",
    "--no-header",
    "--no-emit-index-url",
)


def names(lock: str) -> list[str]:
    """The packages of a lock."""
    lines = (ROOT / lock).read_text(encoding="utf-8").splitlines()
    return sorted({line.partition("==")[0] for line in lines if line[:1].isalnum()})


def _write(lock: str, raised: list[str], *, after: tuple[str, ...] = ()) -> None:
    """``after``: locks that are installed before this one, which repeats none of their packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    oldest = project["project"]["requires-python"].removeprefix(">=")
    command = ["uv", "pip", "compile", "-q", *OPTIONS, "--python-version", oldest, "-o", lock]
    command += [f"--upgrade-package={name}" for name in raised]
    command += [f"--constraint={earlier}" for earlier in after]
    command += [f"--no-emit-package={name}" for earlier in after for name in names(earlier)]
    text = "\n".join(project["build-system"]["requires"])
    command += {
        RUNTIME: ["--extra=console", "pyproject.toml"],
        BUILD: ["-"],
        DEV: ["--group", "dev"],
    }[lock]
    subprocess.run(command, cwd=ROOT, input=text, text=True, check=True)


def main() -> None:
    """Run by make locks."""
    raised = sys.argv[1:]
    _write(RUNTIME, raised)
    _write(BUILD, raised, after=(RUNTIME,))
    _write(DEV, raised, after=(RUNTIME, BUILD))


if __name__ == "__main__":
    main()
