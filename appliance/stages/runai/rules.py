"""What Run:ai's documentation requires of a site that installs it, as far as the site's files show it. Nothing is contacted.

Sources: NVIDIA Run:ai self-hosted 3.0, "system requirements", "support matrix", "preparations"; ranges of 2.25 where 3.0's were not
available (docs/runai.md, Preflight).
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING

from appliance.config.bounded_files import TooLarge, read_bytes
from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, Rule
from appliance.config.secrets import FORMATS
from appliance.stages.runai.values import ADMIN_PASSWORD, INFERENCE_KEY, NEEDED, TLS_KEY
from appliance.stages.scheduler.site import RunaiInstall, RunaiOptions

if TYPE_CHECKING:
    from appliance.adapters.certificates import Chain

WHERE: KeyPath = ("scheduler", "runai")
INSTALL: KeyPath = (*WHERE, "install")
PROJECTS: KeyPath = ("scheduler", "projects")
KUBERNETES = ((1, 33), (1, 36))
"""Of cluster releases 2.24 to 2.26; the range of 3.0 was not published where we looked."""
FIRST = 3
"""Major release of the control planes that issue bootstrap tokens."""
GPU_OPERATOR = ((25, 10), (26, 7))


def _chosen(case: Case) -> tuple[RunaiOptions, RunaiInstall] | None:
    """The sections of a site that installs Run:ai."""
    options = case.site.scheduler.runai if case.site.scheduler else None
    if options is None or options.install is None:
        return None
    return options, options.install


def domains(case: Case) -> Iterator[Finding]:
    """Domain names, not addresses, and different ones."""
    if (chosen := _chosen(case)) is None:
        return
    options, install = chosen
    inference = install.inference
    places = [((*WHERE, "domain"), options.host)]
    if inference is not None:
        places.append(((*INSTALL, "inference", "domain"), inference.domain))
    for path, name in places:
        if _is_address(name):
            message = f"{name} is an address: Run:ai requires a domain name"
            yield case.problem(path, message, "register a name for it, such as runai.example.com")
    if inference is not None and inference.domain == options.host:
        path = (*INSTALL, "inference", "domain")
        message = f"{inference.domain} is also the domain of the control plane"
        yield case.problem(path, message, f"use another one, such as inference.{options.host}")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def own_cluster(case: Case) -> Iterator[Finding]:
    """Run:ai is installed on a cluster of the site's own."""
    cluster = case.site.kubernetes
    if _chosen(case) is None or (cluster is not None and cluster.external is None):
        return
    message = "is only supported on a Kubernetes cluster that this site deploys"
    remedy = "add section kubernetes without external, or remove install"
    yield case.problem(INSTALL, message, remedy)


def releases(case: Case) -> Iterator[Finding]:
    """Kubernetes and the GPU Operator are in the documented ranges."""
    cluster = case.site.kubernetes
    if _chosen(case) is None or cluster is None or case.profile is None:
        return
    software = case.profile.software.model_copy(update=dict(case.site.software))
    found = cluster.version or software.kubernetes
    if found and not _within(found, *KUBERNETES):
        path: KeyPath = ("kubernetes", "version") if cluster.version else INSTALL
        message = f"Kubernetes {found} is out of range for Run:ai: {_range(*KUBERNETES)}"
        yield case.problem(path, message, 'set kubernetes.version: "1.35"')
    if cluster.device_plugin != "operator":
        message = f"device_plugin is {cluster.device_plugin}, but Run:ai requires the GPU Operator"
        yield case.problem(("kubernetes", "device_plugin"), message, "set device_plugin: operator")
    elif software.gpu_operator is None:
        message = "Run:ai requires the GPU Operator, which the profile does not set"
        yield case.problem(INSTALL, message, 'set software.gpu_operator: "26.3"')
    elif not _within(software.gpu_operator, *GPU_OPERATOR):
        named = "gpu_operator" in case.site.software
        path = ("software", "gpu_operator") if named else INSTALL
        message = f"GPU Operator {software.gpu_operator} is out of range for Run:ai: {_range(*GPU_OPERATOR)}"
        yield case.problem(path, message, 'set software.gpu_operator: "26.3"')


def version(case: Case) -> Iterator[Finding]:
    """The registration is that of 3.0: earlier control planes have no bootstrap token."""
    if (chosen := _chosen(case)) is None or (given := chosen[1].version) is None:
        return
    if int(given.lstrip("v").split(".")[0]) < FIRST:
        message = f"Run:ai {given} is registered in another way than {FIRST}.0"
        yield case.problem((*INSTALL, "version"), message, "remove it, or set version: 3.0.20")


def _within(release: str, least: tuple[int, int], most: tuple[int, int]) -> bool:
    numbers = tuple(int(part) for part in release.split(".")[:2])
    return least <= numbers <= most


def _range(least: tuple[int, int], most: tuple[int, int]) -> str:
    return " to ".join(".".join(map(str, part)) for part in (least, most))


def storage(case: Case) -> Iterator[Finding]:
    """Its databases have a StorageClass."""
    if (chosen := _chosen(case)) is None or not case.checked.whole("workloads"):
        return
    workloads = case.site.workloads
    sections = (workloads.nfs_csi, workloads.local_path) if workloads else ()
    if chosen[1].storage_class is None and not any(s.default_class for s in sections if s):
        message = "the databases of Run:ai need a StorageClass, and the site has no default one"
        remedy = "add workloads.nfs_csi, or set storage_class to a class of the cluster"
        yield case.problem(INSTALL, message, remedy)


def needed_secrets(case: Case) -> Iterator[Finding]:
    """All passwords and keys are given: the charts' default passwords are public."""
    if (chosen := _chosen(case)) is None:
        return
    more = (INFERENCE_KEY,) if chosen[1].inference else ()
    for name in (*NEEDED, *more):
        if name not in case.site.secrets and case.checked.whole("secrets", name):
            message = "is missing; it is needed to install Run:ai"
            yield case.problem(("secrets", name), message, f"add {name}: {{file: secrets/{name}}}")


def password(case: Case) -> Iterator[Finding]:
    """The control plane accepts the administrator's password."""
    if _chosen(case) is None or (value := _secret(case, ADMIN_PASSWORD)) is None:
        return
    pattern, form = FORMATS[ADMIN_PASSWORD]
    if not pattern.fullmatch(value):
        yield case.problem(
            ("secrets", ADMIN_PASSWORD), "is too weak for Run:ai", f"write {form} into it"
        )


def _secret(case: Case, name: str) -> str | None:
    """A secret of a file or a variable; None if it is in a vault or cannot be read, which other rules report."""
    ref = case.site.secrets.get(name)
    if ref is None:
        return None
    if ref.env is not None:
        return os.environ.get(ref.env)
    return _text(case, ref.file) if ref.file is not None else None


def _text(case: Case, name: str) -> str | None:
    try:
        return read_bytes(case.folder / name).decode("utf-8", "replace").rstrip("\r\n")
    except (OSError, TooLarge):
        return None


def certificates(case: Case) -> Iterator[Finding]:
    """Certificates cover their names, are valid, whole, trusted, and fit their keys."""
    if (chosen := _chosen(case)) is None:
        return
    options, install = chosen
    names = [options.host, *([f"*.{options.host}"] if install.subdomains else [])]
    places = [((*INSTALL, "certificate"), install.certificate, names, TLS_KEY)]
    if install.inference is not None:
        path = (*INSTALL, "inference", "certificate")
        wanted = [f"*.{install.inference.domain}"]
        places.append((path, install.inference.certificate, wanted, INFERENCE_KEY))
    for path, name, wanted, key in places:
        if (found := _chain(case, name)) is None:
            message = f"{name} cannot be read, or contains no certificate"
            yield case.problem(
                path, message, "name the chain in PEM, the server's certificate first"
            )
            continue
        yield from _covered(case, path, name, found, wanted)
        yield from _trusted(case, path, name, found, options)
        yield from _fitting(case, key, name, found)


def _chain(case: Case, name: str) -> "Chain | None":
    """The certificates of a file; None if it has none or cannot be read."""
    # Imported here: most sites have no certificates.
    from appliance.adapters.certificates import chain

    text = _text(case, name)
    try:
        return chain(text) if text is not None else None
    except ValueError:
        return None


def _covered(
    case: Case, path: KeyPath, name: str, found: "Chain", wanted: list[str]
) -> Iterator[Finding]:
    missing = [w for w in wanted if not _covers(found.names, w)]
    if missing:
        message = f"{name} does not cover {' and '.join(missing)}"
        yield case.problem(path, message, f"request a certificate for {' and '.join(wanted)}")
    now = datetime.now(UTC)
    if not found.begins <= now < found.ends:
        message = f"{name} is valid from {found.begins:%Y-%m-%d} to {found.ends:%Y-%m-%d} only"
        yield case.problem(path, message, "renew it, or correct this machine's clock")


def _covers(names: tuple[str, ...], wanted: str) -> bool:
    """A wildcard covers one label, and no other wildcard."""
    known = {name.lower() for name in names}
    _, _, parent = wanted.partition(".")
    return wanted in known or (not wanted.startswith("*.") and f"*.{parent}" in known)


def _trusted(
    case: Case, path: KeyPath, name: str, found: "Chain", options: RunaiOptions
) -> Iterator[Finding]:
    if found.broken:
        message = f"certificate {found.broken} of {name} is not signed by the one after it"
        remedy = (
            "put the server's certificate first, then each authority that signs the one before it"
        )
        yield case.problem(path, message, remedy)
    elif options.ca is None and found.ends_in_itself:
        message = f"{name} is signed by an authority of its own, which pods do not trust"
        yield case.problem(path, message, "set scheduler.runai.ca to the authority's certificate")
    elif options.ca is not None and (text := _text(case, options.ca)) is not None:
        try:
            signed = found.is_signed_by(text)
        except ValueError:
            return
        if not signed:
            message = f"{name} is not signed by {options.ca}"
            remedy = "add the missing intermediate certificates to it, or name the authority that signs it"
            yield case.problem(path, message, remedy)


def _fitting(case: Case, key: str, name: str, found: "Chain") -> Iterator[Finding]:
    if (value := _secret(case, key)) is None:
        return
    try:
        fits = found.has_key(value)
    except ValueError:
        yield case.problem(
            ("secrets", key), "is not an unencrypted private key in PEM", f"store the key of {name}"
        )
        return
    if not fits:
        yield case.problem(
            ("secrets", key), f"is not the key of {name}", "store the key that belongs to it"
        )


def authority(case: Case) -> Iterator[Finding]:
    """The CA's file can be read."""
    options, _ = _chosen(case) or (None, None)
    if options is None or options.ca is None:
        return
    if _chain(case, options.ca) is not None:
        return
    message = f"{options.ca} cannot be read, or contains no certificate"
    yield case.problem((*WHERE, "ca"), message, "name the CA's certificates in PEM")


RULES: tuple[Rule, ...] = (
    domains,
    own_cluster,
    releases,
    version,
    storage,
    needed_secrets,
    password,
    certificates,
    authority,
)
