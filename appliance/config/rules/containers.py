"""Rules over containers in Slurm jobs: releases are chosen, files are there and are what they are said to be."""

import hashlib
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

from appliance.config.compatibility import table
from appliance.config.finding import Finding, KeyPath
from appliance.config.reading import opened
from appliance.config.rules.base import Case

PARTS = ("pyxis", "enroot")
SECTION: KeyPath = ("slurm", "containers")
TOP_FOLDER = re.compile(r"^(?:\./)?(?:nvslurm-plugin-)?pyxis-v?(\d+(?:\.\d+)+)(?:/|$)")


def releases(case: Case) -> Iterator[Finding]:
    """Containers need a release of both parts, and a release of the site's own needs the files."""
    wanted = case.site.slurm.containers is not None
    for name in PARTS:
        if wanted and _release(case, name) is None:
            lines = ", ".join(table().lines(name))
            message = f"wants a release of {name}, and neither profile nor site names one"
            yield case.problem(SECTION, message, f"add software: {name}, in one of {lines}")
        elif not wanted and name in case.site.software and case.checked.whole("slurm"):
            remedy = "add slurm.containers with its files (docs/containers.md), or leave it out"
            yield case.problem(("software", name), "is chosen, and no containers are", remedy)


def files(case: Case) -> Iterator[Finding]:
    """Every file is there, has its digest, and is of the release that was chosen."""
    wanted = case.site.slurm.containers
    if wanted is None:
        return
    for i, package in enumerate(wanted.enroot):
        yield from _pinned(case, (*SECTION, "enroot", i), package.file, package.sha256)
    path: KeyPath = (*SECTION, "pyxis")
    found = list(_pinned(case, path, wanted.pyxis.file, wanted.pyxis.sha256))
    yield from found
    if not found:
        yield from _of_release(case, (*path, "file"), wanted.pyxis.file)


def _release(case: Case, name: str) -> str | None:
    profile = getattr(case.profile.software, name) if case.profile else ""
    return case.site.software.get(name) or profile


def _pinned(case: Case, path: KeyPath, name: str, sha256: str) -> Iterator[Finding]:
    file = case.folder / name
    try:
        found = _digest(file)
    except OSError as error:
        message = f"{name} cannot be read ({error.strerror})"
        yield case.problem((*path, "file"), message, "the path starts at the site's folder")
        return
    if found != sha256:
        yield case.problem(
            (*path, "sha256"),
            f"{name} has the digest {found}",
            "take the digest from where the release is published, and fetch the file again",
        )


def _of_release(case: Case, path: KeyPath, name: str) -> Iterator[Finding]:
    """Archives of a release hold one folder that bears its number; of others nothing is said."""
    try:
        with tarfile.open(case.folder / name) as archive:
            first = archive.next()
    except (OSError, tarfile.TarError, EOFError) as error:
        yield case.problem(path, f"{name} is no archive ({error})", "fetch it again")
        return
    held = TOP_FOLDER.match(first.name) if first else None
    wanted = _release(case, "pyxis")
    if not held or not wanted:
        return
    numbers = wanted.split(".")
    if held.group(1).split(".")[: len(numbers)] != numbers:
        message = f"{name} holds pyxis {held.group(1)}, and {wanted} is chosen"
        yield case.problem(
            path, message, f"take its archive, or write software: pyxis: {held.group(1)}"
        )


def _digest(file: Path) -> str:
    with opened(file) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
