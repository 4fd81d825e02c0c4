"""Rules for the files a site names: secrets, the login key, known hosts."""

import os
import shlex
import stat
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from appliance.config import certificate
from appliance.config.bounded_files import TooLarge, opened, read_bytes
from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, nearest
from appliance.models.secret import SecretRef
from appliance.models.site import Site

# The secrets that each part of the appliance needs, by name.
NEEDED_BY_SLURM = {"munge_key": "Slurm", "slurmdbd_password": "Slurm's accounting"}
NEEDED_BY_CLUSTER = {"kubernetes_encryption_key": "Kubernetes"}
KNOWN_HOSTS_BYTES = 50_000_000
ASKED_FOR = (
    *NEEDED_BY_SLURM,
    *NEEDED_BY_CLUSTER,
    "backup_ssh_key",
    "ngc_api_key",
    "runai_admin_password",
    "runai_client_secret",
    "runai_database_password",
    "runai_inference_tls_key",
    "runai_keycloak_password",
    "runai_tls_key",
)


def needed_secrets(case: Case) -> Iterator[Finding]:
    """Required secrets are given."""
    cluster = case.site.kubernetes
    own_cluster = cluster is not None and cluster.external is None
    needed = (NEEDED_BY_SLURM if case.site.slurm else {}) | (
        NEEDED_BY_CLUSTER if own_cluster else {}
    )
    for name, user in needed.items():
        if name not in case.site.secrets and case.checked.whole("secrets", name):
            remedy = f"add {name}: {{file: secrets/{name}}}; to generate one: appliance init DIR --count 4 --profile hpc"
            yield case.problem(("secrets", name), f"is missing; it is needed by {user}", remedy)


def known_secrets(case: Case) -> Iterator[Finding]:
    """Given secrets are used: a mistyped name would be ignored silently."""
    for name in case.site.secrets:
        if name not in ASKED_FOR:
            remedy = nearest(name, ASKED_FOR, "known")
            yield case.problem(("secrets", name), "is a secret that nothing uses", remedy)


def secret_places(case: Case) -> Iterator[Finding]:
    """Each reference can be resolved, and files are private."""
    for path, ref in _places(case.site).items():
        if ref.file is not None:
            yield from _private(case, (*path, "file"), ref.file, "secret file")
        elif ref.env is not None and not os.environ.get(ref.env):
            finding = case.problem(
                (*path, "env"), f"{ref.env} is not set", f"export {ref.env}=... before you deploy"
            )
            yield replace(finding, level="todo")
        elif ref.vault is not None:
            yield from _vault(case, (*path, "vault"), ref.vault)


def _places(site: Site) -> dict[KeyPath, SecretRef]:
    """Every reference to a secret, by its place in the file."""
    places: dict[KeyPath, SecretRef] = {
        ("secrets", name): ref for name, ref in site.secrets.items()
    }
    for i, host in enumerate(site.hosts):
        if host.bmc:
            places["hosts", i, "bmc", "password"] = host.bmc.password
    for i, receiver in enumerate(site.observe.receivers):
        kind = "webhook" if receiver.webhook else "slack"
        if receiver.address:
            places["observe", "receivers", i, kind] = receiver.address
    if (mail := site.observe.mail) and mail.password:
        places["observe", "mail", "password"] = mail.password
    for name in ("url", "token", "key"):
        if ref := getattr(site.notify, name, None):
            places["notify", name] = ref
    return places


def authorities(case: Case) -> Iterator[Finding]:
    """The CA certificates that BMCs and the receiver of events are verified with exist."""
    named: dict[KeyPath, str | None] = {
        ("hosts", i, "bmc", "authority"): host.bmc.authority if host.bmc else None
        for i, host in enumerate(case.site.hosts)
    }
    named["notify", "authority"] = case.site.notify.authority if case.site.notify else None
    for path, name in named.items():
        if name is None:
            continue
        try:
            text = read_bytes(case.folder / name)
        except TooLarge:
            text = b""
        except OSError as error:
            yield case.problem(path, f"{name} cannot be read ({error.strerror})", _way_to(error))
            continue
        if b"-----BEGIN CERTIFICATE-----" not in text:
            yield case.problem(
                path, f"{name} contains no certificate", "name the CA's certificate in PEM"
            )
        elif why := certificate.complaint(text.decode("utf-8", "replace")):
            yield case.problem(path, f"{name} {why}", "fetch the CA's certificate again")


def login_key(case: Case) -> Iterator[Finding]:
    """The private key exists, and ssh accepts it."""
    name = case.site.access.private_key
    path: KeyPath = ("access", "private_key")
    if name is None:
        return
    if _is_public(case.folder / name):
        remedy = "name the private key, the file without .pub"
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
    trust = f"appliance trust --site {_quoted(case.folder)}"
    if not case.checked.whole("access"):
        return
    file = case.folder / name
    try:
        is_file = stat.S_ISREG(file.stat().st_mode)
    except FileNotFoundError:
        remedy = f"confirm the keys once: {trust}"
        finding = case.problem(path, f"{name} does not exist: no host key is pinned yet", remedy)
        yield replace(finding, level="todo")
    except OSError as error:
        yield case.problem(path, f"{name} cannot be read ({error.strerror})", _way_to(error))
    else:
        if not is_file:
            yield case.problem(
                path, f"{name} is not a file", "name a regular file, such as known_hosts"
            )
        elif why := _no_known_hosts(file):
            yield case.problem(
                path, f"{name} {why}", f"remove that line or move the file away, then: {trust}"
            )


def _no_known_hosts(file: Path) -> str:
    """Why ssh could not read it; empty if it can."""
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
            return f"has {wide} in line {number}, which does not pin the key of a single host"
    return ""


def _trusts_beyond(first: str, names: str) -> str:
    """What makes a line of known_hosts apply to hosts it does not name; Ansible's ssh would accept it (sshd(8), SSH_KNOWN_HOSTS)."""
    if first == "@revoked":
        return ""
    if first.startswith("@"):
        return f"the marker {first}"
    return "a pattern" if not set("*?!").isdisjoint(names) else ""


def _is_host_key(words: Sequence[str]) -> bool:
    """Names, key type and key, as in sshd(8); the key begins with its type, after a length of four bytes."""
    if len(words) < 3:
        return False
    try:
        return b64decode(words[2], validate=True)[4:].startswith(words[1].encode())
    except ValueError:
        return False


def _way_to(error: OSError) -> str:
    """Whether the path is wrong, or the file belongs to another user."""
    mine = "it belongs to another user: name another file, or correct its owner and mode"
    lost = (
        "the path is relative to the site's folder; if the file was lost, restore it from a backup"
    )
    return mine if isinstance(error, PermissionError) else lost


def _quoted(path: Path) -> str:
    """As a shell reads it."""
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
            f"make it private: chmod 600 {_quoted(file)}",
        )
    elif not state.st_size:
        yield case.problem(path, f"{what} {name} is empty", "write the secret into it")


def _vault(case: Case, path: KeyPath, place: str) -> Iterator[Finding]:
    name, _, key = place.partition("#")
    if not name or not key:
        yield case.problem(
            path,
            f'"{place}" names no key',
            "write file and key, such as secrets/vault.yml#munge_key",
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
