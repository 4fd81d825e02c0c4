"""A public key lets somebody in, or it is refused: whole, of its kind, and nothing before it."""

import struct
from base64 import b64encode

import pytest

from appliance.config.public_key import complaint


def line(kind: str, *parts: bytes, named: str = "", comment: str = " alice") -> str:
    """A key as ssh-keygen writes it; ``named``: the kind inside, where it is another."""
    fields = ((named or kind).encode(), *parts)
    blob = b"".join(struct.pack(">I", len(part)) + part for part in fields)
    return f"{kind} {b64encode(blob).decode()}{comment}"


E, N = b"\1\0\1", b"\0" + b"\xc5" * 256
POINT = b"\4" + b"\7" * 64
SOUND = {
    "ed25519": line("ssh-ed25519", b"k" * 32),
    "rsa": line("ssh-rsa", E, N),
    "ecdsa": line("ecdsa-sha2-nistp256", b"nistp256", POINT),
    "ecdsa-521": line("ecdsa-sha2-nistp521", b"nistp521", b"\4" + b"\7" * 132),
    "hardware": line("sk-ssh-ed25519@openssh.com", b"k" * 32, b"ssh:"),
    "hardware-ecdsa": line("sk-ecdsa-sha2-nistp256@openssh.com", b"nistp256", POINT, b"ssh:"),
    "no comment": line("ssh-ed25519", b"k" * 32, comment=""),
    "a comment of words": line("ssh-ed25519", b"k" * 32, comment=" Zoë of the lab, 2026"),
}
REFUSED = {
    "cut": (SOUND["rsa"][:300], "truncated"),
    "cut at a field": (line("ssh-ed25519"), "truncated"),
    "too long": (line("ssh-ed25519", b"k" * 33), "truncated"),
    "something behind": (line("ssh-ed25519", b"k" * 32, b"more"), "truncated"),
    "another type": (line("ssh-rsa", b"k" * 32, named="ssh-ed25519"), "another type"),
    "another curve": (line("ecdsa-sha2-nistp256", b"nistp384", POINT), "truncated"),
    "a short RSA": (line("ssh-rsa", E, b"\x7f" * 128), "bits"),
    "an option": (f'command="id" {SOUND["ed25519"]}', "not an OpenSSH"),
    "a line before": (f"x\n{SOUND['ed25519']}", "not an OpenSSH"),
    "a line behind": (f"{SOUND['no comment']}\n{SOUND['rsa']}", "truncated"),
    "a line in the comment": (f"{SOUND['ed25519']}\nssh-rsa AAAA", "comment"),
    "an end of line": (f"{SOUND['ed25519']}\n", "comment"),
    "a template": (f"{SOUND['ed25519']}{{{{ x }}}}", "comment"),
    "a hidden mark": (f"{SOUND['ed25519']}\u202e", "comment"),
    "a long comment": (SOUND["ed25519"] + "a" * 300, "comment"),
    "two spaces": (SOUND["ed25519"].replace(" ", "  ", 1), "not an OpenSSH"),
    "DSA": (line("ssh-dss", E, N), "not an OpenSSH"),
    "nothing": ("", "not an OpenSSH"),
}


@pytest.mark.parametrize("name", SOUND)
def test_keys_as_ssh_keygen_writes_them_are_taken(name: str) -> None:
    assert complaint(SOUND[name]) == ""


@pytest.mark.parametrize("name", REFUSED)
def test_what_lets_nobody_in_or_more_than_one_is_refused(name: str) -> None:
    text, says = REFUSED[name]
    assert says in complaint(text)
