"""Run:ai's requirements of a site, one bad site for each: refused with file, line, key and remedy before anything is contacted."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.config.finding import Finding, InvalidConfig, render
from appliance.config.load import load_site
from tests.support.runai.site import (
    DOMAIN,
    SITE,
    Authorities,
    private,
    signed,
    write_site,
)

Change = Callable[[Path, Authorities], None]
LONG = "p" * 58
INSTALL = "scheduler.runai.install"
EQUAL = ("idle_limit: 30m", "idle_limit: 8h")
EXTERNAL = ('  version: "1.35"\n  device_plugin: operator', "  external: kubeconfig")
NO_CLASS = ("workloads:\n  nfs_csi: {}\n", "")
NO_CHOSEN_CLASS = ("      storage_class: nfs\n", "")
"""Both together: neither a default class nor a chosen one."""


def nothing(folder: Path, authorities: Authorities) -> None:
    """The files stay as they are."""


@dataclass(frozen=True)
class Bad:
    """A row: replaced texts of the site, a change of its files, and the finding: words of its line, key, message and remedy.

    ``others``: findings about the same fault by other rules.
    """

    name: str
    line: str
    key: str
    says: str
    remedy: str
    edits: tuple[tuple[str, str], ...] = ()
    change: Change = nothing
    others: int = 0


def covering(*names: str, days: int = 30) -> Change:
    """The control plane's certificate is for these names."""
    return lambda folder, authorities: authorities.write(folder, *names, days=days)


def writing(name: str, text: str) -> Change:
    """A file of the site has this content."""
    return lambda folder, _: private(folder / name, text)


def own_authority(folder: Path, authorities: Authorities) -> None:
    """The chain ends in a root that is no public one."""
    authorities.write(folder)
    file = folder / "tls/runai.pem"
    file.write_text(file.read_text() + authorities.root.pem)


def disordered(folder: Path, authorities: Authorities) -> None:
    """Its intermediate is another authority's."""
    authorities.write(folder)
    file = folder / "tls/runai.pem"
    server = file.read_text().partition("-----END CERTIFICATE-----\n")
    file.write_text("".join(server[:2]) + authorities.other.pem)


def other_key(folder: Path, authorities: Authorities) -> None:
    """The key belongs to another certificate."""
    private(folder / "secrets/runai_tls_key", signed("x", None, "x.example.com").key_pem)


def other_ca(folder: Path, authorities: Authorities) -> None:
    """The CA of the site signs nothing of the chain."""
    (folder / "tls/ca.pem").write_text(authorities.other.pem)


ROWS = (
    Bad(
        "an address as the domain",
        "domain: 10.0.0.9",
        "scheduler.runai.domain",
        "is an address",
        "register a name",
        ((f"domain: {DOMAIN}", "domain: 10.0.0.9"),),
        covering("10.0.0.9", "*.10.0.0.9"),
    ),
    Bad(
        "one domain for two things",
        f"domain: {DOMAIN}",
        f"{INSTALL}.inference.domain",
        "is also the domain of the control plane",
        "use another one",
        (("domain: inference.example.com", f"domain: {DOMAIN}"),),
        lambda folder, authorities: _inference(folder, authorities, f"*.{DOMAIN}"),
    ),
    Bad(
        "a release with another registration",
        "version: 2.26.1",
        f"{INSTALL}.version",
        "registered in another way",
        "3.0.20",
        (("      storage_class: nfs\n", "      version: 2.26.1\n"),),
    ),
    Bad(
        "a weak password",
        "runai_admin_password:",
        "secrets.runai_admin_password",
        "is too weak",
        "a digit",
        change=writing("secrets/runai_admin_password", "abcdefgh"),
    ),
    Bad(
        "no administrator's password",
        "secrets:",
        "secrets.runai_admin_password",
        "is missing",
        "add runai_admin_password",
        (("  runai_admin_password: {file: secrets/runai_admin_password}\n", ""),),
    ),
    Bad(
        "the public password of the database",
        "secrets:",
        "secrets.runai_database_password",
        "is missing",
        "add runai_database_password",
        (("  runai_database_password: {file: secrets/runai_database_password}\n", ""),),
    ),
    Bad(
        "the public password of Keycloak",
        "secrets:",
        "secrets.runai_keycloak_password",
        "is missing",
        "add runai_keycloak_password",
        (("  runai_keycloak_password: {file: secrets/runai_keycloak_password}\n", ""),),
    ),
    Bad(
        "no key of the certificate",
        "secrets:",
        "secrets.runai_tls_key",
        "is missing",
        "add runai_tls_key",
        (("  runai_tls_key: {file: secrets/runai_tls_key}\n", ""),),
    ),
    Bad(
        "entitled without a key",
        "edition: entitled",
        "scheduler.runai.edition",
        "secrets.ngc_api_key is not",
        "add ngc_api_key",
        (("  ngc_api_key: {file: secrets/ngc_api_key}\n", ""),),
    ),
    Bad(
        "no StorageClass",
        "install:",
        INSTALL,
        "no default one",
        "add workloads.nfs_csi",
        (NO_CLASS, NO_CHOSEN_CLASS),
    ),
    Bad(
        "a StorageClass that is no default",
        "install:",
        INSTALL,
        "no default one",
        "set storage_class",
        (("nfs_csi: {}", "nfs_csi: {default_class: false}"), NO_CHOSEN_CLASS),
    ),
    Bad(
        "an external cluster",
        "install:",
        INSTALL,
        "that this site deploys",
        "add section kubernetes",
        (EXTERNAL, NO_CLASS),
        writing("kubeconfig", "{}"),
    ),
    Bad(
        "an old Kubernetes",
        'version: "1.32"',
        "kubernetes.version",
        "out of range for Run:ai: 1.33 to 1.36",
        "kubernetes.version",
        (('version: "1.35"', 'version: "1.32"'),),
        others=1,
    ),
    Bad(
        "no GPU Operator",
        "device_plugin: plugin",
        "kubernetes.device_plugin",
        "requires the GPU Operator",
        "device_plugin: operator",
        (("device_plugin: operator", "device_plugin: plugin"),),
    ),
    Bad(
        "an old GPU Operator",
        'gpu_operator: "25.3"',
        "software.gpu_operator",
        "out of range for Run:ai: 25.10 to 26.7",
        "software.gpu_operator",
        (('gpu_operator: "26.3"', 'gpu_operator: "25.3"'),),
        others=1,
    ),
    Bad(
        "a certificate without the wildcard",
        "certificate: tls/runai.pem",
        f"{INSTALL}.certificate",
        f"does not cover *.{DOMAIN}",
        f"{DOMAIN} and *.{DOMAIN}",
        change=covering(DOMAIN),
    ),
    Bad(
        "a certificate without the name",
        "certificate: tls/runai.pem",
        f"{INSTALL}.certificate",
        f"does not cover {DOMAIN}",
        "request a certificate",
        change=covering(f"*.{DOMAIN}"),
    ),
    Bad(
        "a certificate of another inference domain",
        "certificate: tls/inference.pem",
        f"{INSTALL}.inference.certificate",
        "does not cover *.models.example.com",
        "request a certificate",
        (("domain: inference.example.com", "domain: models.example.com"),),
    ),
    Bad(
        "an expired certificate",
        "certificate: tls/runai.pem",
        f"{INSTALL}.certificate",
        "is valid from",
        "renew it",
        change=covering(DOMAIN, f"*.{DOMAIN}", days=-1),
    ),
    Bad(
        "no certificate",
        "certificate: tls/runai.pem",
        f"{INSTALL}.certificate",
        "contains no certificate",
        "name the chain in PEM",
        change=writing("tls/runai.pem", "nothing"),
    ),
    Bad(
        "an interrupted chain",
        "certificate: tls/runai.pem",
        f"{INSTALL}.certificate",
        "certificate 1 of tls/runai.pem is not signed by the one after it",
        "the server's certificate first",
        change=disordered,
    ),
    Bad(
        "a chain that ends in an own authority",
        "certificate: tls/runai.pem",
        f"{INSTALL}.certificate",
        "which pods do not trust",
        "set scheduler.runai.ca",
        (("    ca: tls/ca.pem\n", ""),),
        own_authority,
    ),
    Bad(
        "a chain of another authority",
        "certificate: tls/runai.pem",
        f"{INSTALL}.certificate",
        "is not signed by tls/ca.pem",
        "missing intermediate certificates",
        change=other_ca,
        others=1,
    ),
    Bad(
        "no authority in the CA's file",
        "ca: tls/ca.pem",
        "scheduler.runai.ca",
        "contains no certificate",
        "name the CA's certificates in PEM",
        change=writing("tls/ca.pem", "nothing"),
    ),
    Bad(
        "the key of another certificate",
        "runai_tls_key:",
        "secrets.runai_tls_key",
        "is not the key of tls/runai.pem",
        "store the key that belongs to it",
        change=other_key,
    ),
    Bad(
        "no key in the key's file",
        "runai_tls_key:",
        "secrets.runai_tls_key",
        "is not an unencrypted private key",
        "store the key of tls/runai.pem",
        change=writing("secrets/runai_tls_key", "nothing"),
    ),
    Bad(
        "an idle limit above the time limit",
        "idle_limit: 9h",
        "scheduler.projects[0].queues[0].idle_limit",
        "is never reached",
        "set it below time_limit",
        (("idle_limit: 30m", "idle_limit: 9h"),),
    ),
    Bad(
        "an administrator without a mail address",
        "admin: admin",
        f"{INSTALL}.admin",
        "is not a mail address",
        "such as admin@example.com",
        (("admin: admin@example.com", "admin: admin"),),
    ),
)


def _inference(folder: Path, authorities: Authorities, name: str) -> None:
    """The inference certificate is for this name."""
    server = signed("inference", authorities.middle, name)
    (folder / "tls/inference.pem").write_text(server.pem + authorities.middle.pem)
    private(folder / "secrets/runai_inference_tls_key", server.key_pem)


@pytest.fixture(scope="module")
def authorities() -> Authorities:
    return Authorities.fresh()


def _findings(folder: Path) -> list[Finding]:
    try:
        load_site(folder)
    except InvalidConfig as refused:
        return list(refused.findings)
    return []


def test_a_sound_site_is_accepted(tmp_path: Path, authorities: Authorities) -> None:
    write_site(tmp_path, authorities)
    assert _findings(tmp_path) == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_requirement_is_refused_in_one_line(
    tmp_path: Path, authorities: Authorities, row: Bad
) -> None:
    text = SITE
    for old, new in row.edits:
        assert old in text
        text = text.replace(old, new)
    file = write_site(tmp_path, authorities, text)
    row.change(tmp_path, authorities)
    every = _findings(tmp_path)
    hits = [f for f in every if f.key == row.key and row.says in f.message]
    assert (len(hits), len(every)) == (1, 1 + row.others), render(every)
    (found,) = hits
    lines = file.read_text().splitlines()
    assert found.file.name == "site.yml"
    assert row.line in lines[found.line - 1]
    assert row.remedy in found.remedy
    assert "\n" not in str(found)


def test_paths_need_no_wildcard(tmp_path: Path, authorities: Authorities) -> None:
    text = SITE.replace("      storage_class: nfs\n", "      subdomains: false\n")
    write_site(tmp_path, authorities, text)
    authorities.write(tmp_path, DOMAIN)
    assert _findings(tmp_path) == []


def test_a_public_chain_needs_no_authority(tmp_path: Path, authorities: Authorities) -> None:
    write_site(tmp_path, authorities, SITE.replace("    ca: tls/ca.pem\n", ""))
    assert _findings(tmp_path) == []


def test_without_an_installation_nothing_of_it_is_asked_for(
    tmp_path: Path, authorities: Authorities
) -> None:
    start, end = SITE.index("    install:"), SITE.index("  projects:")
    write_site(tmp_path, authorities, SITE[:start] + SITE[end:])
    assert _findings(tmp_path) == []
