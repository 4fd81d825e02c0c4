"""Downloads files into a bundle, by apt's own programs: each compared with its digest, none fetched twice."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.adapters.process import run
from appliance.airgap.manifest import STAGING, BundleFile, digest_of, is_there
from appliance.errors import ApplianceError, CommandFailed, ConfigError

HELPER = "/usr/lib/apt/apt-helper"
OPTIONS = ("-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3")
BATCH_FILES, BATCH_BYTES = 40, 64 << 20
BATCH_SECONDS = 3600.0
SHOWN = 3

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """A file to download, with the entry that it gets in the manifest; ``file.bytes`` 0: its size is unknown."""

    file: BundleFile
    uri: str


def bring(folder: Path, wanted: Sequence[Wanted], tell: Tell) -> tuple[BundleFile, ...]:
    """Downloads what the folder lacks; returns the entries with their sizes.

    Files that are complete stay, so the same call continues an interrupted one. Raises ApplianceError with the names
    of files that could not be fetched, after all others were.
    """
    staging = folder / STAGING
    staging.mkdir(exist_ok=True)
    left = [one for one in wanted if not _is_done(folder, one.file)]
    _require_room(folder, sum(one.file.bytes for one in left))
    done, total = 0, sum(one.file.bytes for one in left)
    if len(left) < len(wanted):
        tell(f"{len(wanted) - len(left)} of {len(wanted)} files are already here")
    failed: list[str] = []
    for batch in _batches(left):
        said = _fetch(staging, [one for one in batch if not _is_staged(staging, one.file)])
        for one in batch:
            if _is_staged(staging, one.file):
                _keep(staging, folder, one.file)
            else:
                failed.append(one.file.path)
                tell(f"not fetched: {one.file.path}: {reason(said, one.uri)}")
        done += sum(one.file.bytes for one in batch)
        tell(f"{done / 1e6:.0f} of {total / 1e6:.0f} MB")
    if failed:
        more = f" and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
        raise ApplianceError(
            f"not fetched, or not as announced: {', '.join(failed[:SHOWN])}{more}",
            "the same command continues; if it fails again, the mirror is out of date: use another one",
        )
    return tuple(_with_size(folder, one.file) for one in wanted)


def _batches(wanted: Sequence[Wanted]) -> Iterator[list[Wanted]]:
    batch: list[Wanted] = []
    for one in wanted:
        batch.append(one)
        if len(batch) == BATCH_FILES or sum(w.file.bytes for w in batch) > BATCH_BYTES:
            yield batch
            batch = []
    if batch:
        yield batch


def _fetch(staging: Path, wanted: Sequence[Wanted]) -> str:
    """Downloads one batch; returns what the program said of failures."""
    if not wanted:
        return ""
    argv: list[str] = []
    for one in wanted:
        target = staging / one.file.sha256
        # apt would take over a file of that name with the time of the mirror's.
        target.unlink(missing_ok=True)
        argv += [one.uri, str(target), f"SHA256:{one.file.sha256}"]
    try:
        done = run((HELPER, *OPTIONS, "download-file", *argv), timeout=BATCH_SECONDS, check=False, env={"LC_ALL": "C"})  # fmt: skip
    except CommandFailed as error:
        raise ConfigError(
            f"apt is needed here: {error.message}", "run this on a machine with Debian or Ubuntu"
        ) from None
    return done.stderr


def _is_done(folder: Path, file: BundleFile) -> bool:
    if file.bytes:
        return is_there(folder, file)
    try:
        return digest_of(folder, file.path) == file.sha256
    except OSError:
        return False


def _is_staged(staging: Path, file: BundleFile) -> bool:
    try:
        return digest_of(staging, file.sha256) == file.sha256
    except OSError:
        return False


def _keep(staging: Path, folder: Path, file: BundleFile) -> None:
    target = folder / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    (staging / file.sha256).replace(target)


def _with_size(folder: Path, file: BundleFile) -> BundleFile:
    return file.model_copy(update={"bytes": (folder / file.path).stat().st_size})


def reason(said: str, uri: str) -> str:
    """What apt said of this address, in one line."""
    lines = [line.strip() for line in said.splitlines()]
    for line in lines:
        if line.startswith("E: Failed to fetch") and uri in line:
            return line.partition(uri)[2].strip() or line
    return next((line.removeprefix("E: ") for line in lines if line.startswith("E: ")), "no answer")


def _require_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ApplianceError(
            f"{folder} has {free / 1e9:.1f} GB of free space, but {needed / 1e9:.1f} GB are needed",
            "free space there, or give another folder",
        )


def finish(folder: Path) -> None:
    """Removes what only an interrupted download needs."""
    shutil.rmtree(folder / STAGING, ignore_errors=True)
