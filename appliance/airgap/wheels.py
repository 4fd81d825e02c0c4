"""Python packages of the control machine, by the lock of this release: pip compares each with its hashes."""

import hashlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from appliance.adapters.process import run
from appliance.airgap.download import Tell
from appliance.airgap.manifest import BundleFile, digest_of
from appliance.errors import ApplianceError

FOLDER = "wheels"
LOCK = f"{FOLDER}/requirements.lock"
PIP_SECONDS = 1800.0
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64", "manylinux_2_34_x86_64")  # fmt: skip
"""Up to the C library of Debian 12."""
OWN = frozenset({"appliance", "appliance-lab"})
"""Files of the release itself, which no index has."""
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
NAME = re.compile(r"[A-Za-z0-9._-]+")


def of_python(lock: str, python: str) -> str:
    """The entries of a lock that a release of Python needs on Linux, without their conditions."""
    return "".join(_entries(lock, python))


def _entries(lock: str, python: str) -> Iterator[str]:
    from packaging.markers import Marker

    environment = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": "x86_64",
        "platform_system": "Linux",
        "sys_platform": "linux",
    }
    for entry in re.split(r"(?m)^(?=[A-Za-z0-9])", lock):
        named = NAME.match(entry)
        if named is None or named[0].lower() in OWN:
            continue
        first, _, rest = entry.partition("\n")
        requirement, _, condition = first.rstrip(" \\").partition(";")
        if not condition or Marker(condition.strip()).evaluate(environment):
            hashes = "".join(f" \\\n    --hash=sha256:{digest}" for digest in HASH.findall(rest))
            yield f"{requirement.strip()}{hashes}\n"


def count(lock: str) -> int:
    """The number of packages in a lock."""
    return len(re.findall(r"(?m)^[A-Za-z0-9]", lock))


def bring(folder: Path, locks: Mapping[str, str], tell: Tell) -> list[BundleFile]:
    """Downloads the packages of each release of Python; complete files stay. Raises ApplianceError."""
    target = folder / FOLDER
    target.mkdir(exist_ok=True)
    for python, lock in locks.items():
        tell(f"Python packages for Python {python}")
        _download(target, python, lock)
    accepted = {digest for lock in locks.values() for digest in HASH.findall(lock)}
    return [file for file in _found(folder) if file.sha256 in accepted]


def _download(target: Path, python: str, lock: str) -> None:
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    argv = (
        # Without -I, python -m runs a module of that name from the current directory, such as /tmp.
        *(sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "download", "--quiet"),
        *("--no-deps", "--only-binary=:all:", "--require-hashes", "--python-version", python),
        *(*platforms, "--dest", str(target), "--requirement", "/dev/stdin"),
    )
    done = run(argv, input=lock, timeout=PIP_SECONDS, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        raise ApplianceError(
            f"Python packages for Python {python}: {said[-1].removeprefix('ERROR: ') if said else 'pip failed'}",
            "check pip's index and network; the same command continues",
        )


def _found(folder: Path) -> Iterator[BundleFile]:
    for file in sorted((folder / FOLDER).glob("*.whl")):
        name, version, *_ = file.name.split("-")
        path = f"{FOLDER}/{file.name}"
        yield BundleFile(
            path=path,
            sha256=digest_of(folder, path),
            bytes=file.stat().st_size,
            kind="wheel",
            name=name,
            version=version,
        )


def lock_file(lock: str) -> tuple[BundleFile, bytes]:
    """The lock itself, for ``pip install --require-hashes`` in the hall."""
    content = lock.encode()
    digest = hashlib.sha256(content).hexdigest()
    return BundleFile(path=LOCK, sha256=digest, bytes=len(content), kind="lock", name="requirements.lock"), content  # fmt: skip
