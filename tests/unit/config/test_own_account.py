"""A site whose people would take the account from deployments that log in with it is refused."""

import struct
from base64 import b64decode, b64encode
from pathlib import Path

import pytest

from appliance.config.finding import InvalidConfig
from appliance.config.load import load_site
from appliance.config.public_key import of_private

ALICE = "AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"
OWN = b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0 " + bytes(32)).decode()


def private(public: str, cipher: bytes = b"none", begin: str = "OPENSSH PRIVATE KEY") -> str:
    """A key as ssh-keygen writes one, whose secret half is missing."""
    fields = (cipher, b"bcrypt", b"\0" * 24)
    head = b"".join(struct.pack(">I", len(field)) + field for field in fields)
    blob = b64decode(public)
    whole = b"openssh-key-v1\0" + head + struct.pack(">II", 1, len(blob)) + blob + b"secret"
    body = b64encode(whole).decode()
    lines = "\n".join(body[at : at + 70] for at in range(0, len(body), 70))
    return f"-----BEGIN {begin}-----\n{lines}\n-----END {begin}-----\n"


@pytest.mark.parametrize("cipher", [b"none", b"aes256-ctr"])
def test_a_private_key_tells_its_public_half_behind_a_passphrase_too(cipher: bytes) -> None:
    assert of_private(private(OWN, cipher).encode()) == OWN


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a key",
        private(OWN, begin="RSA PRIVATE KEY"),
        private(OWN)[:60] + "\n-----END OPENSSH PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----\n????\n-----END OPENSSH PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----",
    ],
)
def test_what_tells_none_is_no_error(text: str) -> None:
    assert of_private(text.encode()) == ""


def findings(folder: Path, people: str, key: str = "") -> list[str]:
    """Of a site that logs in as deployer, with these lines in its section base."""
    file = folder / "site.yml"
    text = file.read_text().replace("  user: root\n", "  user: deployer\n  become: true\n")
    begin, end = text.index("  admins:\n"), text.index("\nfabric:\n")
    file.write_text(f"{text[:begin]}{people}{text[end:]}")
    if key:
        (folder / "secrets/id_ed25519").write_text(key)
    try:
        load_site(folder)
    except InvalidConfig as error:
        return [f"{f.key} {f.message}: {f.remedy}" for f in error.findings]
    return []


def admin(*keys: str, sudo: str = "true") -> str:
    listed = ", ".join(f"ssh-ed25519 {key} me" for key in keys)
    return f"  admins:\n    - {{name: deployer, keys: [{listed}], sudo: {sudo}}}\n"


def test_an_admin_of_that_name_has_the_key_of_deployments(site_folder: Path) -> None:
    (said,) = findings(site_folder, admin(ALICE), private(OWN))
    assert said.startswith("base.admins[0].keys deployer is the account that deployments log in")
    assert "ssh-keygen -y -f secrets/id_ed25519" in said


@pytest.mark.parametrize(
    ("people", "key"),
    [
        (admin(ALICE, OWN), private(OWN)),
        (admin(OWN), private(OWN, b"aes256-ctr")),
        (admin(ALICE).replace("deployer", "alice"), private(OWN)),
        ("", private(OWN)),
        # Nobody can tell the other half of it.
        (admin(ALICE), private(OWN, begin="RSA PRIVATE KEY")),
    ],
)
def test_who_keeps_the_way_in_is_sound(site_folder: Path, people: str, key: str) -> None:
    assert findings(site_folder, people, key) == []


def test_the_other_half_beside_the_key_tells_it_too(site_folder: Path) -> None:
    (site_folder / "secrets/id_ed25519.pub").write_text(f"ssh-ed25519 {OWN} deployments\n")
    (said,) = findings(site_folder, admin(ALICE), private(OWN, begin="RSA PRIVATE KEY"))
    assert said.startswith("base.admins[0].keys ")


def test_a_certificate_needs_no_key_in_the_account(site_folder: Path) -> None:
    (site_folder / "secrets/id_ed25519-cert.pub").write_text("a certificate\n")
    assert findings(site_folder, admin(ALICE), private(OWN)) == []


@pytest.mark.parametrize(
    ("people", "said"),
    [
        (admin(OWN, sudo="false"), "base.admins[0].sudo"),
        (
            f"  users:\n    - {{name: deployer, uid: 2001, keys: [ssh-ed25519 {OWN} me]}}\n",
            "base.users[0].name",
        ),
        ("  groups:\n    - {name: deployer, gid: 2001}\n", "base.groups[0].name"),
    ],
)
def test_nobody_else_has_that_account(site_folder: Path, people: str, said: str) -> None:
    (found,) = findings(site_folder, people, private(OWN))
    assert found.startswith(f"{said} deployer is the account that deployments log in with")
