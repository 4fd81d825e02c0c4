"""Rules over the files a site points to: secrets, the key to log in with, known hosts."""

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case
from appliance.models.site import SecretRef

# What each part of the appliance asks for by name.
NEEDED = {"munge_key": "Slurm", "slurmdbd_password": "Slurm's accounting"}
NEEDED_BY_CLUSTER = {"kubernetes_encryption_key": "Kubernetes"}


def needed_secrets(case: Case) -> Iterator[Finding]:
    """What is used is there."""
    cluster = case.site.kubernetes
    own_cluster = cluster is not None and cluster.external is None
    for name, user in (NEEDED | (NEEDED_BY_CLUSTER if own_cluster else {})).items():
        if name not in case.site.secrets and case.checked.whole("secrets", name):
            remedy = (
                f"add {name}: {{file: secrets/{name}}}; appliance init makes one in a new folder"
            )
            yield case.problem(("secrets", name), f"is missing, {user} needs it", remedy)


def secret_places(case: Case) -> Iterator[Finding]:
    """Each reference leads somewhere, and files are closed to others."""
    places: dict[KeyPath, SecretRef] = {
        ("secrets", name): ref for name, ref in case.site.secrets.items()
    }
    for i, host in enumerate(case.site.hosts):
        if host.bmc:
            places["hosts", i, "bmc", "password"] = host.bmc.password
    for path, ref in places.items():
        if ref.file is not None:
            yield from _private(case, (*path, "file"), ref.file, "secret file")
        elif ref.env is not None and not os.environ.get(ref.env):
            finding = case.problem(
                (*path, "env"), f"{ref.env} is not set", f"export {ref.env}=... before you deploy"
            )
            yield replace(finding, level="todo")
        elif ref.vault is not None:
            yield from _vault(case, (*path, "vault"), ref.vault)


def login_key(case: Case) -> Iterator[Finding]:
    """The private key is there, and ssh will take it."""
    if case.site.access.private_key is not None:
        yield from _private(
            case, ("access", "private_key"), case.site.access.private_key, "private key"
        )


def known_hosts(case: Case) -> Iterator[Finding]:
    """Host keys are confirmed once, by the owner."""
    name = case.site.access.known_hosts
    if case.checked.whole("access") and not _is_file(case.folder / name):
        path: KeyPath = ("access", "known_hosts")
        remedy = f"confirm them once with appliance trust --inventory {case.folder}"
        finding = case.problem(path, f"{name} does not exist, so no host's key is known", remedy)
        yield replace(finding, level="todo")


def _is_file(file: Path) -> bool:
    try:
        return stat.S_ISREG(file.stat().st_mode)
    except OSError:
        return False


def _private(case: Case, path: KeyPath, name: str, what: str) -> Iterator[Finding]:
    file = case.folder / name
    try:
        state = file.stat()
    except OSError as error:
        yield case.problem(
            path,
            f"{what} {name} cannot be read ({error.strerror})",
            "the path starts at the site's folder",
        )
        return
    if not stat.S_ISREG(state.st_mode):
        yield case.problem(path, f"{what} {name} is not a file", "name the file itself")
        return
    mode = stat.S_IMODE(state.st_mode)
    if mode not in (0o600, 0o400):
        yield case.problem(
            path, f"{what} {name} has mode {mode:04o}", f"close it to others: chmod 600 {file}"
        )
    elif not state.st_size:
        yield case.problem(path, f"{what} {name} is empty", "write the secret into it")


def _vault(case: Case, path: KeyPath, place: str) -> Iterator[Finding]:
    name, _, key = place.partition("#")
    if not name or not key:
        yield case.problem(
            path, f'"{place}" names no key', "write file and key as secrets/vault.yml#munge_key"
        )
        return
    file = case.folder / name
    try:
        with file.open("rb") as opened:
            begins = opened.read(14)
    except OSError as error:
        yield case.problem(
            path,
            f"vault {name} cannot be read ({error.strerror})",
            "the path starts at the site's folder",
        )
        return
    if begins != b"$ANSIBLE_VAULT":
        yield case.problem(path, f"{name} is not encrypted", f"ansible-vault encrypt {file}")
