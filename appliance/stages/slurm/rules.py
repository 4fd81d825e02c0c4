"""Rules over Slurm: partitions, accounts, and containers in jobs, whose files are there and are what they are said to be."""

import hashlib
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

from appliance.config.compatibility import table
from appliance.config.finding import Finding, KeyPath
from appliance.config.reading import opened
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
    """Partitions have names of their own, and jobs that name none go to exactly one."""
    given = case.site.slurm.partitions
    names: list[tuple[KeyPath, str]] = [
        (("slurm", "partitions", i, "name"), p.name) for i, p in enumerate(given)
    ]
    for at, name, first in repeated(names):
        yield case.problem(at, f'"{name}" stands twice (also line {case.line(first)})', "keep one")
    for i, partition in enumerate(given):
        path: KeyPath = ("slurm", "partitions", i)
        if partition.name.lower() in SLURM_WORDS:
            yield case.problem((*path, "name"), *_slurms(partition.name))
        if (
            not any(digit in "123456789" for digit in partition.max_time)
            and partition.max_time != UNLIMITED
        ):
            message = f'"{partition.max_time}" lets no job run'
            yield case.problem((*path, "max_time"), message, "a minute at least, or UNLIMITED")
    defaults = sum(p.default for p in given)
    if defaults != 1 and case.checked.whole("slurm", "partitions"):
        message = f"{defaults or 'none'} of {len(given)} partitions is the default"
        yield case.problem(("slurm", "partitions"), message, 'set "default: true" on exactly one')


def slurm_words(case: Case) -> Iterator[Finding]:
    """What Slurm reads as a value is no name of a cluster or an account."""
    given: list[tuple[KeyPath, str]] = [(("slurm", "cluster"), case.site.slurm.cluster)]
    given += [
        (("slurm", "accounts", i, "name"), account.name)
        for i, account in enumerate(case.site.slurm.accounts)
        if account.name != DEFAULT_ACCOUNT
    ]
    for path, name in given:
        if name.lower() in SLURM_WORDS:
            yield case.problem(path, *_slurms(name))


def _slurms(name: str) -> tuple[str, str]:
    return f'"{name}" has a meaning in Slurm\'s files', "take another name"


def accounts(case: Case) -> Iterator[Finding]:
    """Slurm accounts have names of their own."""
    names: list[tuple[KeyPath, str]] = [
        (("slurm", "accounts", i, "name"), a.name) for i, a in enumerate(case.site.slurm.accounts)
    ]
    yield from named_twice(case, "account", names)


def ssh_needs_job(case: Case) -> Iterator[Finding]:
    """There is a host that people come to for its GPUs alone, and whom a job is asked of."""
    if not case.site.slurm.ssh_needs_job or not case.checked.whole("hosts"):
        return
    if not any(concerns(host) for host in case.site.with_role(Role.GPU)):
        message = "every GPU host is also a control or login host, where people submit jobs"
        remedy = "leave it out, or give people a login host"
        yield case.problem(("slurm", "ssh_needs_job"), message, remedy)


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


RULES: tuple[Rule, ...] = (
    partitions,
    slurm_words,
    accounts,
    ssh_needs_job,
    releases,
    files,
)
