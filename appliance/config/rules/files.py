"""Rules over the files a site points to: secrets, the key to log in with, known hosts."""

import os
import shlex
import stat
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from appliance.config import certificate
from appliance.config.finding import Finding, KeyPath
from appliance.config.reading import TooLarge, opened, read_bytes
from appliance.config.rules.base import Case, nearest
from appliance.models.secret import SecretRef

# What each part of the appliance asks for by name.
NEEDED = {"munge_key": "Slurm", "slurmdbd_password": "Slurm's accounting"}
NEEDED_BY_CLUSTER = {"kubernetes_encryption_key": "Kubernetes"}
KNOWN_HOSTS_BYTES = 50_000_000
ASKED_FOR = (*NEEDED, *NEEDED_BY_CLUSTER, "ngc_api_key")


def needed_secrets(case: Case) -> Iterator[Finding]:
    """What is used is there."""
    cluster = case.site.kubernetes
    own_cluster = cluster is not None and cluster.external is None
    for name, user in (NEEDED | (NEEDED_BY_CLUSTER if own_cluster else {})).items():
        if name not in case.site.secrets and case.checked.whole("secrets", name):
            remedy = f"add {name}: {{file: secrets/{name}}}; for a new one: appliance init DIR --hosts 4 --profile hpc"
            yield case.problem(("secrets", name), f"is missing, {user} needs it", remedy)


def known_secrets(case: Case) -> Iterator[Finding]:
    """What is given is used by somebody: a name that was mistyped would be kept and never asked for."""
    for name in case.site.secrets:
        if name not in ASKED_FOR:
            remedy = nearest(name, ASKED_FOR, "known")
            yield case.problem(("secrets", name), "is a secret nothing asks for", remedy)


def secret_places(case: Case) -> Iterator[Finding]:
    """Each reference leads somewhere, and files are closed to others."""
    places: dict[KeyPath, SecretRef] = {
        ("secrets", name): ref for name, ref in case.site.secrets.items()
    }
    for i, host in enumerate(case.site.hosts):
        if host.bmc:
            places["hosts", i, "bmc", "password"] = host.bmc.password
    for i, receiver in enumerate(case.site.observe.receivers):
        kind = "webhook" if receiver.webhook else "slack"
        if receiver.address:
            places["observe", "receivers", i, kind] = receiver.address
    if (mail := case.site.observe.mail) and mail.password:
        places["observe", "mail", "password"] = mail.password
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


def bmc_authorities(case: Case) -> Iterator[Finding]:
    """The certificate that controllers are judged by is there."""
    for i, host in enumerate(case.site.hosts):
        name = host.bmc.authority if host.bmc else None
        if name is None:
            continue
        path: KeyPath = ("hosts", i, "bmc", "authority")
        try:
            text = read_bytes(case.folder / name)
        except TooLarge:
            text = b""
        except OSError as error:
            yield case.problem(path, f"{name} cannot be read ({error.strerror})", _way_to(error))
            continue
        if b"-----BEGIN CERTIFICATE-----" not in text:
            yield case.problem(path, f"{name} holds no certificate", "name the authority's in PEM")
        elif why := certificate.complaint(text.decode("utf-8", "replace")):
            yield case.problem(path, f"{name} {why}", "fetch the authority's certificate again")


def login_key(case: Case) -> Iterator[Finding]:
    """The private key is there, and ssh will take it."""
    name = case.site.access.private_key
    path: KeyPath = ("access", "private_key")
    if name is None:
        return
    if _is_public(case.folder / name):
        remedy = "name the file without .pub: its other half stays here and lets this machine in"
        yield case.problem(path, f"{name} is a public key", remedy)
    else:
        yield from _private(case, path, name, "private key")


def _is_public(file: Path) -> bool:
    try:
        with opened(file) as content:
            return content.read(16).startswith((b"ssh-", b"ecdsa-", b"sk-"))
    except OSError:
        return False


def known_hosts(case: Case) -> Iterator[Finding]:
    """Host keys are confirmed once, by the owner."""
    name = case.site.access.known_hosts
    path: KeyPath = ("access", "known_hosts")
    trust = f"appliance trust --inventory {_quoted(case.folder)}"
    if not case.checked.whole("access"):
        return
    file = case.folder / name
    try:
        is_file = stat.S_ISREG(file.stat().st_mode)
    except FileNotFoundError:
        remedy = f"confirm them once with {trust}"
        finding = case.problem(path, f"{name} does not exist, so no host's key is known", remedy)
        yield replace(finding, level="todo")
    except OSError as error:
        yield case.problem(path, f"{name} cannot be read ({error.strerror})", _way_to(error))
    else:
        if not is_file:
            yield case.problem(path, f"{name} is not a file", "name a file, as known_hosts")
        elif why := _no_known_hosts(file):
            yield case.problem(
                path, f"{name} {why}", f"remove that line or move the file away, then {trust}"
            )


def _no_known_hosts(file: Path) -> str:
    """Why ssh could not read it; empty where it can."""
    try:
        lines = read_bytes(file, KNOWN_HOSTS_BYTES).decode("utf-8").splitlines()
    except TooLarge:
        return "is larger than 50 MB"
    except UnicodeDecodeError:
        return "is not UTF-8 text"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    for number, line in enumerate(lines, 1):
        words = [word for word in line.split() if not word.startswith("@")]
        if not words or words[0].startswith("#"):
            continue
        if not _is_host_key(words):
            return f"has no host key in line {number}"
        if wide := _trusts_beyond(line.split()[0], words[0]):
            return f"has {wide} in line {number}, which pins no host's own key"
    return ""


def _trusts_beyond(first: str, names: str) -> str:
    """What makes a line of known_hosts hold for hosts it does not name; Ansible's ssh would take it (sshd(8), SSH_KNOWN_HOSTS)."""
    if first == "@revoked":
        return ""
    if first.startswith("@"):
        return f"the marker {first}"
    return "a pattern" if not set("*?!").isdisjoint(names) else ""


def _is_host_key(words: Sequence[str]) -> bool:
    """Names, kind and key, as sshd(8) has them; the key begins with its kind's name, four bytes of length before it."""
    if len(words) < 3:
        return False
    try:
        return b64decode(words[2], validate=True)[4:].startswith(words[1].encode())
    except ValueError:
        return False


def _way_to(error: OSError) -> str:
    """Whether the path leads nowhere, or the file is somebody else's."""
    mine = "it belongs to another user: take that one, or correct owner and mode"
    return mine if isinstance(error, PermissionError) else "the path starts at the site's folder"


def _quoted(path: Path) -> str:
    """As a shell takes it."""
    return shlex.quote(os.fspath(path))


def _private(case: Case, path: KeyPath, name: str, what: str) -> Iterator[Finding]:
    file = case.folder / name
    try:
        state = file.stat()
    except OSError as error:
        yield case.problem(
            path,
            f"{what} {name} cannot be read ({error.strerror})",
            _way_to(error),
        )
        return
    if not stat.S_ISREG(state.st_mode):
        yield case.problem(path, f"{what} {name} is not a file", "name the file itself")
        return
    mode = stat.S_IMODE(state.st_mode)
    if mode not in (0o600, 0o400):
        yield case.problem(
            path,
            f"{what} {name} has mode {mode:04o}",
            f"close it to others: chmod 600 {_quoted(file)}",
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
        with opened(file) as content:
            begins = content.read(14)
    except OSError as error:
        yield case.problem(
            path,
            f"vault {name} cannot be read ({error.strerror})",
            _way_to(error),
        )
        return
    if begins != b"$ANSIBLE_VAULT":
        yield case.problem(
            path, f"{name} is not encrypted", f"ansible-vault encrypt {_quoted(file)}"
        )
