"""Plain hosts: what an installer writes, and that nothing of a rack's own is among it."""

from pathlib import Path

import pytest

from appliance.config.load import load_profile
from appliance.errors import ConfigError
from appliance.lab import mounts, plain, seed, spec, status
from appliance.lab import ssh as lab_ssh
from appliance.lab.hardware import of_profile
from appliance.lab.spec import SECONDS, RackSpec, network_of, numbered
from appliance.provision.sources import RELEASES, Sources, debian_lines, write_sources

LINES = ("deb http://a/debian trixie main", "deb http://a/security trixie-security main")
OLD = numbered(RackSpec("t", 3, plain="12"), 5, {"base": "/cache/root"})
NEW = numbered(RackSpec("t", 3, plain="13", user="ops"), 5, {"base": "/cache/root"})
ORDINARY = numbered(RackSpec("t", 3), 5, {"base": "/cache/root"})


def test_names_addresses_and_network_are_not_those_of_the_rack() -> None:
    assert [host.name for host in OLD.hosts] == ["node-a17", "node-b03", "node-b04"]
    assert not {h.name for h in OLD.hosts} & {h.name for h in ORDINARY.hosts}
    assert not OLD.network.overlaps(ORDINARY.network)
    assert [host.address for host in OLD.hosts] == ["10.93.5.41", "10.93.5.42", "10.93.5.43"]
    assert [host.roles for host in OLD.hosts] == [host.roles for host in ORDINARY.hosts]
    assert all(str(network_of(5, s)).endswith(".5.0/24") for s in SECONDS)


@pytest.mark.parametrize(
    "given",
    [
        {"plain": "11"},
        {"plain": "bookworm"},
        {"plain": "13", "kubernetes": True},
        {"plain": "12", "kubernetes": True, "slurm": 1},
        {"plain": "12", "driver": True},
        {"plain": "12", "user": "root"},
        {"plain": "12", "user": "a b"},
        {"plain": "12", "user": ""},
    ],
)
def test_what_plain_hosts_cannot_be_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        RackSpec(**given)  # type: ignore[arg-type]


def test_the_installer_writes_only_what_it_was_asked() -> None:
    for rack in (OLD, NEW):
        texts = plain.texts(rack, rack.hosts[1])
        assert not [name for name in texts if "appliance" in name or "lab" in name]
        told = "".join(texts.values())
        assert "node-b03" in told
        assert "node-a17" not in told
        assert "appliance" not in told
        assert "PermitRootLogin no" in told
        assert "10.93.5.42/24" in told


def test_each_release_sets_its_network_its_own_way() -> None:
    assert "etc/network/interfaces" in plain.texts(OLD, OLD.hosts[0])
    assert "etc/network/interfaces" not in plain.texts(NEW, NEW.hosts[0])


def test_sources_have_the_releases_own_form(tmp_path: Path) -> None:
    (tmp_path / "etc/apt/sources.list.d").mkdir(parents=True)
    (tmp_path / "etc/apt/sources.list").write_text("of the build\n")
    write_sources(tmp_path, Sources(LINES, "", {}), "12")
    assert (tmp_path / "etc/apt/sources.list").read_text() == "\n".join(LINES) + "\n"
    write_sources(tmp_path, Sources(LINES, "", {}), "13")
    assert not (tmp_path / "etc/apt/sources.list").exists()
    written = (tmp_path / "etc/apt/sources.list.d/debian.sources").read_text()
    assert written.count("Types: deb\n") == 2
    assert "Suites: trixie-security\nComponents: main\n" in written


def test_another_release_comes_from_the_same_archives() -> None:
    targets = (
        "http://a/debian/|bookworm|bookworm|main|Debian\n"
        "http://a/debian/|bookworm-updates|bookworm-updates|main|Debian\n"
    )
    assert debian_lines(targets, RELEASES["13"]) == (
        "deb http://a/debian/ trixie main",
        "deb http://a/debian/ trixie-updates main",
    )


def test_hardware_is_marked_unless_a_test_asks_otherwise() -> None:
    name = "etc/appliance/simulated.json"
    assert '"gpu"' in seed.marks(OLD, OLD.hosts[1])[name]
    unmarked = numbered(RackSpec("t", 3, plain="12", marked=False), 5, {})
    told = seed.marks(unmarked, unmarked.hosts[1])[name]
    assert '"gpu"' not in told
    assert "/var/lib/appliance-lab/sys" in told


def test_hosts_for_a_cluster_get_what_a_container_lacks_below_their_own_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Beside the hardware's stand-ins, and no package, image or program of the rack's own cluster."""
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    wanted = RackSpec("t", 3, "cost-efficient", kubernetes=True, plain="12")
    found = numbered(wanted, 5, {"base": "/cache/root"}, of_profile(load_profile("cost-efficient")))
    host = found.hosts[1]
    host.folder.mkdir(parents=True)
    plain.build_hardware(found, host)
    units = host.hardware / "usr/local/lib/systemd/system"
    enabled = units / "multi-user.target.wants/appliance-lab-cluster.service"
    assert enabled.resolve() == units / "appliance-lab-cluster.service"
    assert "mount" in enabled.read_text()
    assert not (host.hardware / "opt").exists()


def test_commands_go_through_the_account_and_sudo() -> None:
    argv = lab_ssh.command(NEW, NEW.hosts[0], ("ls", "'a b'"))
    assert f"ops@{NEW.hosts[0].address}" in argv
    assert argv[-1] == """sudo -n -- sh -c 'ls '"'"'a b'"'"''"""
    assert f"root@{ORDINARY.hosts[0].address}" in lab_ssh.command(ORDINARY, ORDINARY.hosts[0])


def test_what_stands_in_for_hardware_is_a_layer_below_the_hosts_own_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[tuple[str, ...]] = []
    host = OLD.hosts[0]
    monkeypatch.setattr(mounts, "run", lambda argv: ran.append(argv))
    monkeypatch.setattr(mounts, "_image", lambda _: "disk.img")
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: None)
    mounts.mount_host(OLD, host)
    assert f"lowerdir={host.hardware}:/cache/root,upperdir=" in ran[-1][4]


def test_the_owner_is_told_what_a_site_needs() -> None:
    told = status.of_plain(OLD)
    for word in ("10.93.5.41  node-a17", "installer, with sudo", "appliance init mysite --count 3"):
        assert word in told
