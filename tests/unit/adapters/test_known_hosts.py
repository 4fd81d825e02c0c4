"""Which keys are pinned for a host: as many as the file has for it, none of another's, and the file is read once."""

from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

import paramiko  # noqa: TID251 - makes keys, and reads the file in its own way
import pytest
from paramiko.hostkeys import HostKeyEntry  # noqa: TID251

from appliance.adapters import known_hosts
from appliance.adapters.known_hosts import KnownHosts, UnreadableKey

NAME = "[10.0.0.1]:2222"
KEYS = [paramiko.ECDSAKey.generate() for _ in range(3)]
RSA = paramiko.RSAKey.generate(2048)


def line(names: str, key: paramiko.PKey = KEYS[0]) -> str:
    return f"{names} {key.get_name()} {key.get_base64()}\n"


FILES = {
    "one": line(NAME),
    "several kinds": line(NAME, RSA) + line(NAME, KEYS[1]),
    "two of a kind": line(NAME, KEYS[1]) + line(NAME, KEYS[2]),
    "the same twice": line(NAME) + line(NAME),
    "several names": line(f"head,{NAME},10.0.0.9", RSA),
    "another port": line("10.0.0.1") + line("[10.0.0.1]:22"),
    "a pattern": line("[10.0.0.*]:2222") + line("*"),
    "hashed": line(paramiko.HostKeys.hash_host(NAME)) + line(NAME, RSA),
    "hashed of another": line(paramiko.HostKeys.hash_host("10.0.0.1")),
    "comments and empty lines": f"# ours\n\n  {line(NAME)}#{line(NAME, RSA)}",
    "a comment behind": line(NAME).rstrip() + " made by hand\n",
    "tabs and returns": line(NAME).replace(" ", "\t").replace("\n", "\r\n"),
    "a kind nobody knows": f"{NAME} ssh-new {KEYS[0].get_base64()}\n",
    "a kind that is not the key's": f"{NAME} ssh-rsa {KEYS[0].get_base64()}\n",
    "too few words": f"{NAME} ssh-rsa\n",
    "nothing": "",
}


@pytest.mark.parametrize("case", FILES)
def test_the_keys_of_a_host_are_those_paramiko_finds(case: str, tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(line("10.0.0.7", KEYS[2]) + FILES[case])
    told: Mapping[str, paramiko.PKey] = paramiko.HostKeys(str(file)).lookup(NAME) or {}
    found = KnownHosts(file).keys(NAME)
    assert [(k.get_name(), k.asbytes()) for k in found] == [
        (kind, told[kind].asbytes()) for kind in dict.fromkeys(told)
    ]


SHORT = {
    kind: b64encode(b"".join(len(w).to_bytes(4) + w for w in (kind.encode(), rest))).decode()
    for kind, rest in {"ssh-ed25519": b"short", "ssh-rsa": b"\xff" * 4}.items()
}


@pytest.mark.parametrize(
    "bad",
    [
        f"@revoked {line(NAME)}",
        f"@cert-authority {line('*')}",
        f"{NAME} ssh-rsa notbase64!",
        *(f"10.0.0.9 {kind} {key}" for kind, key in SHORT.items()),
    ],
)
def test_a_line_that_is_no_key_leaves_nobody_trusted(bad: str, tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(line(NAME) + bad)
    pinned = KnownHosts(file)
    for name in (NAME, "10.0.0.7", NAME):
        with pytest.raises(UnreadableKey, match="line 2"):
            pinned.keys(name)
    file.write_text(line(NAME))
    assert len(pinned.keys(NAME)) == 1


def test_a_hashed_name_with_a_broken_salt_is_nobodys(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(line("|1|c2FsdA==|aGFzaA==") + line("|1|"))
    assert KnownHosts(file).keys(NAME) == ()


def test_the_file_is_read_once_for_all_hosts_and_anew_where_it_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "known_hosts"
    file.write_text("".join(line(f"10.0.0.{n}") for n in range(9)))
    read: list[str] = []
    entries = known_hosts._entries

    def noted(text: str) -> list[HostKeyEntry]:
        read.append(text)
        return entries(text)

    monkeypatch.setattr(known_hosts, "_entries", noted)
    pinned = KnownHosts(file)
    assert all(len(pinned.keys(f"10.0.0.{n}")) == 1 for n in range(9))
    assert len(read) == 1
    fresh = tmp_path / "fresh"
    fresh.write_text(line("10.0.0.1", RSA))
    fresh.replace(file)
    assert [k.get_name() for k in pinned.keys("10.0.0.1")] == ["ssh-rsa"]
    assert pinned.keys("10.0.0.2") == ()
    assert len(read) == 2
