"""The key a site logs in with: every kind ssh-keygen makes, and what is told where it is refused or cannot be read."""

from collections.abc import Iterator
from pathlib import Path

import paramiko  # noqa: TID251 - the server takes the key as it is read here
import pytest

from appliance.adapters.process import run
from appliance.adapters.remote import Endpoint
from appliance.adapters.ssh import SshRemote
from appliance.errors import ConnectionFailed
from tests.support.ssh_server import SshServer, serving

KINDS = ("ed25519", "ecdsa", "rsa")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    with serving(tmp_path) as running:
        running.pin(tmp_path / "known_hosts")
        yield running


def _made(file: Path, kind: str, passphrase: str = "", form: str = "RFC4716") -> Path:
    words = ("-m", form) if form != "RFC4716" else ()
    run(("ssh-keygen", "-q", "-t", kind, "-N", passphrase, *words, "-f", str(file)))
    return file


def _logs_in(server: SshServer, key: Path) -> str:
    home = server.home
    endpoint = Endpoint(
        "gpu-1", server.address, server.port, "root", key, home / "known_hosts", False
    )
    with SshRemote([endpoint]) as hosts:
        return hosts.run("gpu-1", ["echo", "here"]).stdout


def _told(server: SshServer, key: Path) -> tuple[str, str]:
    with pytest.raises(ConnectionFailed) as caught:
        _logs_in(server, key)
    assert caught.value.host == "gpu-1"
    return caught.value.message, caught.value.hint


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_of_every_kind_logs_in(kind: str, server: SshServer, tmp_path: Path) -> None:
    key = _made(tmp_path / "key", kind)
    server.user_key = paramiko.PKey.from_path(key)
    assert _logs_in(server, key) == "here\n"


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_the_host_refuses_is_told_as_that(
    kind: str, server: SshServer, tmp_path: Path
) -> None:
    message, hint = _told(server, _made(tmp_path / "key", kind))
    assert message == f"refuses root with the key {tmp_path / 'key'}"
    assert "authorized_keys" in hint


@pytest.mark.parametrize("form", ["RFC4716", "PEM"])
def test_a_key_with_a_passphrase_is_told_as_that(
    form: str, server: SshServer, tmp_path: Path
) -> None:
    message, hint = _told(server, _made(tmp_path / "key", "rsa", "a passphrase", form))
    assert message == f"{tmp_path / 'key'} is protected by a passphrase"
    assert "ssh-add" in hint


@pytest.mark.parametrize("text", ["", "no key\n", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"])
def test_what_is_no_key_is_told_as_that(text: str, server: SshServer, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(text)
    assert _told(server, key)[0] == f"{key} is not a usable private key"


def test_a_key_that_is_not_there_is_told_as_that(server: SshServer, tmp_path: Path) -> None:
    assert _told(server, tmp_path / "key")[0] == f"{tmp_path / 'key'}: No such file or directory"


def test_the_file_is_read_once_for_all_hosts(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = _made(tmp_path / "key", "ed25519")
    server.user_key = paramiko.PKey.from_path(key)
    read: list[Path] = []

    def once(file: Path) -> paramiko.PKey:
        read.append(file)
        return server.user_key

    monkeypatch.setattr(paramiko.PKey, "from_path", staticmethod(once))
    at = (server.address, server.port, "root", key, server.home / "known_hosts", False)
    with SshRemote([Endpoint(host, *at) for host in ("gpu-1", "gpu-2")]) as hosts:
        assert [hosts.run(h, ["echo", "x"]).stdout for h in ("gpu-1", "gpu-2")] == ["x\n", "x\n"]
    assert read == [key]
