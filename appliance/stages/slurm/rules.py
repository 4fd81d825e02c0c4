"""Rules for Slurm: partitions, accounts, and containers in jobs, whose files exist and match their digests."""

import hashlib
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

from appliance.config.bounded_files import opened
from appliance.config.compatibility import table
from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, Rule, named_twice, repeated
from appliance.config.rules.reserved import SLURM_WORDS
from appliance.models.site import Role
from appliance.stages.slurm.site import DEFAULT_ACCOUNT
from appliance.stages.slurm.variables.logins import concerns

PARTS = ("pyxis", "enroot")
SECTION: KeyPath = ("slurm", "containers")
TOP_FOLDER = re.compile(r"^(?:\./)?(?:nvslurm-plugin-)?pyxis-v?(\d+(?:\.\d+)+)(?:/|$)")
UNLIMITED = "UNLIMITED"


def partitions(case: Case) -> Iterator[Finding]:
    """Partition names are unique, and exactly one partition is the default."""
    given = case.site.slurm_options.partitions
    names: list[tuple[KeyPath, str]] = [
        (("slurm", "partitions", i, "name"), p.name) for i, p in enumerate(given)
    ]
    for at, name, first in repeated(names):
        yield case.problem(
            at, f'"{name}" is given twice (also line {case.line(first)})', "keep one"
        )
    for i, partition in enumerate(given):
        path: KeyPath = ("slurm", "partitions", i)
        if partition.name.lower() in SLURM_WORDS:
            yield case.problem((*path, "name"), *_slurms(partition.name))
        if (
            not any(digit in "123456789" for digit in partition.max_time)
            and partition.max_time != UNLIMITED
        ):
            message = f'"{partition.max_time}" allows no job to run'
            yield case.problem((*path, "max_time"), message, "at least one minute, or UNLIMITED")
    defaults = sum(p.default for p in given)
    if defaults != 1 and case.checked.whole("slurm", "partitions"):
        message = f"{defaults or 'none'} of {len(given)} partitions is the default"
        yield case.problem(("slurm", "partitions"), message, 'set "default: true" on exactly one')


def slurm_words(case: Case) -> Iterator[Finding]:
    """Reserved words of Slurm cannot name a cluster or an account."""
    given: list[tuple[KeyPath, str]] = [(("slurm", "cluster"), case.site.slurm_options.cluster)]
    given += [
        (("slurm", "accounts", i, "name"), account.name)
        for i, account in enumerate(case.site.slurm_options.accounts)
        if account.name != DEFAULT_ACCOUNT
    ]
    for path, name in given:
        if name.lower() in SLURM_WORDS:
            yield case.problem(path, *_slurms(name))


def _slurms(name: str) -> tuple[str, str]:
    return f'"{name}" is reserved in Slurm\'s files', "choose another name"


def accounts(case: Case) -> Iterator[Finding]:
    """Slurm accounts have unique names."""
    names: list[tuple[KeyPath, str]] = [
        (("slurm", "accounts", i, "name"), a.name)
        for i, a in enumerate(case.site.slurm_options.accounts)
    ]
    yield from named_twice(case, "account", names)


def ssh_needs_job(case: Case) -> Iterator[Finding]:
    """Some GPU host has no login, and a login host exists to submit jobs from."""
    if not case.site.slurm_options.ssh_needs_job or not case.checked.whole("hosts"):
        return
    if not any(concerns(host) for host in case.site.with_role(Role.GPU)):
        message = "every GPU host is also a control or login host, where people submit jobs"
        remedy = "remove this line, or add a separate login host"
        yield case.problem(("slurm", "ssh_needs_job"), message, remedy)


def releases(case: Case) -> Iterator[Finding]:
    """Containers need a release of both parts, and a release chosen by the site needs the files."""
    wanted = case.site.slurm_options.containers is not None
    for name in PARTS:
        if wanted and _release(case, name) is None:
            lines = ", ".join(table().lines(name))
            message = f"needs a release of {name}, but neither profile nor site sets one"
            yield case.problem(SECTION, message, f"add software: {name}, one of {lines}")
        elif not wanted and name in case.site.software and case.checked.whole("slurm"):
            remedy = "add slurm.containers with its files (docs/containers.md), or remove this line"
            yield case.problem(("software", name), "is set, but slurm.containers is not", remedy)


def files(case: Case) -> Iterator[Finding]:
    """Every file exists, has its digest, and belongs to the chosen release."""
    wanted = case.site.slurm_options.containers
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
        yield case.problem((*path, "file"), message, "the path is relative to the site's folder")
        return
    if found != sha256:
        yield case.problem(
            (*path, "sha256"),
            f"{name} has the digest {found}",
            "copy the digest from the publisher's release page, and download the file again",
        )


def _of_release(case: Case, path: KeyPath, name: str) -> Iterator[Finding]:
    """Archives of a release contain one folder with its version; others are not judged."""
    try:
        with tarfile.open(case.folder / name) as archive:
            first = archive.next()
    except (OSError, tarfile.TarError, EOFError) as error:
        yield case.problem(path, f"{name} is not a readable archive ({error})", "download it again")
        return
    held = TOP_FOLDER.match(first.name) if first else None
    wanted = _release(case, "pyxis")
    if not held or not wanted:
        return
    numbers = wanted.split(".")
    if held.group(1).split(".")[: len(numbers)] != numbers:
        message = f"{name} contains pyxis {held.group(1)}, but {wanted} is set"
        yield case.problem(
            path, message, f"use the archive of {wanted}, or write software: pyxis: {held.group(1)}"
        )


def _digest(file: Path) -> str:
    with opened(file) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


RULES: tuple[Rule, ...] = (
    partitions,
    slurm_words,
    accounts,
    ssh_needs_job,
    releases,
    files,
)
