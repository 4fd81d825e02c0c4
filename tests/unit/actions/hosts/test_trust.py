"""Pinning host keys: only what was confirmed is written, a changed key replaces the old one, others stay."""

import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from appliance.actions.hosts import trust
from appliance.cli.main import cli
from appliance.config.load import LoadedSite, load_site
from appliance.errors import ConfigError, ConnectionFailed, OutOfFiles

SITE = """\
version: 1
name: acme
profile: hpc
networks: {management: {cidr: 10.1.0.0/24}}
hosts:
  - {name: head, roles: [control], address: 10.1.0.10}
  - {name: gpu-1, roles: [gpu], address: 10.1.0.11}
secrets:
  munge_key: {env: MUNGE}
  slurmdbd_password: {env: DBD}
storage: {scratch: null}
"""
KEYS = {"10.1.0.10": ("ssh-ed25519", "AAAAhead", "SHA256:head")}


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoadedSite:
    (tmp_path / "site.yml").write_text(SITE)

    def show(address: str, port: int) -> tuple[str, str, str]:
        if address not in KEYS:
            raise ConnectionFailed(f"{address} does not answer", "power it on")
        return KEYS[address]

    monkeypatch.setattr(trust, "host_key_fingerprint", show)
    return load_site(tmp_path)


def pinned(loaded: LoadedSite) -> str:
    return (loaded.folder / "known_hosts").read_text()


def test_new_key_is_offered_and_silent_host_told(loaded: LoadedSite) -> None:
    offers, silent = trust.offers(loaded)
    assert [(o.host, o.state) for o in offers] == [("head", "new")]
    assert "does not answer" in silent["gpu-1"].message


def test_hosts_are_asked_side_by_side_and_told_in_the_sites_order(
    loaded: LoadedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = threading.Event()

    def show(address: str, port: int) -> tuple[str, str, str]:
        if address == "10.1.0.10":
            assert last.wait(20), "the second host is not asked before the first has answered"
        else:
            last.set()
        return "ssh-ed25519", f"AAAA{address}", "SHA256:x"

    monkeypatch.setattr(trust, "host_key_fingerprint", show)
    offers, silent = trust.offers(loaded)
    assert [(o.host, o.name, o.key) for o in offers] == [
        ("head", "10.1.0.10", "AAAA10.1.0.10"),
        ("gpu-1", "10.1.0.11", "AAAA10.1.0.11"),
    ]
    assert silent == {}


def test_a_host_that_could_not_be_asked_here_is_not_told_as_silent(
    loaded: LoadedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(address: str, port: int) -> tuple[str, str, str]:
        raise OutOfFiles("this process may hold 64 files open", "ulimit -n 8192")

    monkeypatch.setattr(trust, "host_key_fingerprint", refuse)
    with pytest.raises(OutOfFiles):
        trust.offers(loaded)


def test_a_host_that_is_none_of_the_sites_is_refused_with_those_there_are(
    loaded: LoadedSite,
) -> None:
    with pytest.raises(ConfigError, match="--hosts gpu-9: no such host") as refused:
        trust.offers(loaded, ["gpu-9"])
    assert refused.value.hint == "hosts: head, gpu-1"


def test_only_confirmed_keys_are_written(loaded: LoadedSite) -> None:
    offers, _ = trust.offers(loaded)
    assert trust.pin(loaded, offers, lambda offer: False) == []
    assert not (loaded.folder / "known_hosts").exists()
    trust.pin(loaded, offers, lambda offer: True)
    assert pinned(loaded) == "10.1.0.10 ssh-ed25519 AAAAhead\n"
    assert trust.offers(loaded)[0][0].state == "pinned"


def test_changed_key_is_called_so_and_replaces_only_its_own(loaded: LoadedSite) -> None:
    other = "10.1.0.11 ssh-ed25519 AAAAother\n"
    (loaded.folder / "known_hosts").write_text("10.1.0.10 ssh-ed25519 AAAAold\n" + other)
    offers, _ = trust.offers(loaded)
    assert offers[0].state == "changed"
    trust.pin(loaded, offers, lambda offer: True)
    assert pinned(loaded) == other + "10.1.0.10 ssh-ed25519 AAAAhead\n"


def test_key_pinned_by_name_and_address_is_known(loaded: LoadedSite) -> None:
    (loaded.folder / "known_hosts").write_text("head,10.1.0.10 ssh-ed25519 AAAAhead comment\n")
    assert trust.offers(loaded)[0][0].state == "pinned"


def test_one_key_of_several_hosts_is_told_in_one_line(
    loaded: LoadedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trust.shared(loaded, trust.offers(loaded)[0]) == []
    monkeypatch.setitem(KEYS, "10.1.0.11", KEYS["10.1.0.10"])
    assert trust.shared(loaded, trust.offers(loaded)[0]) == [("head", "gpu-1")]
    told = CliRunner().invoke(cli, ["trust", "--site", str(loaded.folder), "--yes"])
    (line,) = [line for line in told.stderr.splitlines() if "warning" in line]
    assert "head, gpu-1 show the same host key" in line
    assert "ssh-keygen -A" in line


def test_a_key_that_is_pinned_for_another_host_is_told(loaded: LoadedSite) -> None:
    (loaded.folder / "known_hosts").write_text("10.1.0.11 ssh-ed25519 AAAAhead\n")
    assert trust.shared(loaded, trust.offers(loaded, ["head"])[0]) == [("head", "gpu-1")]
