"""Real ssh, started by the real Ansible, out of folders of every name; nothing of a name is ever taken for a word."""

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters import ssh_config
from appliance.adapters.process import run
from appliance.adapters.remote import known_hosts_name
from tests.support.hello_playbook import hello, played
from tests.support.ssh_server import SshServer, serving

pytestmark = pytest.mark.skipif(not shutil.which("ssh"), reason="needs the OpenSSH client")

PAYLOAD = "-oProxyCommand=touch${IFS}PWNED"
NAMES = (
    "a site",
    "100%h %c %%",
    "it's",
    'say "hello"',
    "$HOME ${HOME} `touch PWNED`",
    "back\\slash",
    "-oProxyCommand=x",
    "~",
    "München 数据",
    "a:b",
    "{{ lookup('pipe', 'touch PWNED') }}",
    "#comment = value",
    f"kh {PAYLOAD}",
    "L" * 200,
)
ALL = " ".join(name for name in NAMES if len(name) < 50)
# Ansible's own library expands variables in the paths of roles, however often it is told them.
INSTALLED = " ".join(name for name in NAMES if len(name) < 50 and "$" not in name)


def named(server: SshServer) -> str:
    return known_hosts_name(server.address, server.port)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    (tmp_path / "home").mkdir()
    with serving(tmp_path / "home") as found:
        yield found


@pytest.fixture(autouse=True)
def _own_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_HOME", str(tmp_path / "ansible"))


@pytest.mark.parametrize("name", NAMES)
def test_ssh_reads_the_files_of_a_folder_of_any_name(
    tmp_path: Path, server: SshServer, name: str
) -> None:
    site, folder = tmp_path / name, tmp_path / "private"
    site.mkdir()
    folder.mkdir()
    server.pin(site / f"known {name}"[:255])
    server.give_key(site / f"key {name}"[:200])
    words = shlex.split(
        ssh_config.arguments(
            folder, site / f"known {name}"[:255], [named(server)], site / f"key {name}"[:200]
        )
    )
    argv = ("ssh", *words[:2], "-p", str(server.port), f"root@{server.address}", "echo", "hello")
    assert run(argv, cwd=tmp_path).stdout == "hello\n"
    assert not list(tmp_path.rglob("PWNED"))


def test_ansible_plays_a_site_and_an_installation_of_the_worst_names(
    tmp_path: Path, server: SshServer
) -> None:
    site, data = tmp_path / ALL, tmp_path / f"data {INSTALLED}"
    site.mkdir()
    done = played(hello(site, data, server, site / f"key {ALL}"))
    assert (done.ok, done.message) == (True, "")
    assert any("python3" in command for command in server.commands)
    assert not list(tmp_path.rglob("PWNED"))
    assert not Path("PWNED").exists()


def test_configuration_of_the_user_has_no_say(
    tmp_path: Path, server: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plan and health log in without it: a host that they reach must be the one that is deployed."""
    site = tmp_path / "site"
    site.mkdir()
    folder = tmp_path / "private"
    folder.mkdir()
    server.pin(site / "known_hosts")
    words = shlex.split(ssh_config.arguments(folder, site / "known_hosts", [], None))
    said = run(("ssh", "-G", *words, server.address)).stdout
    assert f"userknownhostsfile {folder}/known_hosts\n" in said
    assert "stricthostkeychecking true\n" in said
    assert "globalknownhostsfile /dev/null\n" in said
    assert "preferredauthentications publickey\n" in said
    assert "identitiesonly no\n" in said


def test_host_of_another_key_is_refused(tmp_path: Path, server: SshServer) -> None:
    request = hello(tmp_path, tmp_path / "data", server, tmp_path / "key")
    request.known_hosts.write_text("")
    done = played(request)
    assert done.unreachable
    assert server.commands == []


def test_ssh_is_given_the_keys_of_the_plays_hosts_alone(tmp_path: Path, server: SshServer) -> None:
    """Patterns of the file would let any key of theirs in, and connections of this program know none."""
    folder, file = tmp_path / "private", tmp_path / "known_hosts"
    folder.mkdir()
    server.pin(file)
    (own,) = file.read_text().splitlines()
    key = own.partition(" ")[2]
    file.write_text(f"{own}\n* {key}\n10.0.0.9 {key}\n!10.0.0.8,10.0.0.8 {key}\n")
    ssh_config.arguments(folder, file, [named(server), "10.0.0.8"], None)
    assert (folder / "known_hosts").read_text().splitlines() == [own]


def test_a_file_that_nobody_can_read_lets_no_host_in(tmp_path: Path, server: SshServer) -> None:
    folder, file = tmp_path / "private", tmp_path / "known_hosts"
    folder.mkdir()
    server.pin(file)
    file.write_text(f"@revoked * ssh-ed25519 AAAA\n{file.read_text()}")
    ssh_config.arguments(folder, file, [named(server)], None)
    assert (folder / "known_hosts").read_text() == ""


def test_public_half_and_certificate_of_a_key_go_with_it(tmp_path: Path) -> None:
    for name in ("private", "site"):
        (tmp_path / name).mkdir()
    for ending in ("", ".pub", "-cert.pub"):
        (tmp_path / "site" / f"id{ending}").write_text(ending)
    ssh_config.arguments(tmp_path / "private", tmp_path / "kh", [], tmp_path / "site" / "id")
    linked = {link.name: str(link.readlink()) for link in (tmp_path / "private").glob("key*")}
    assert linked == {
        f"key{ending}": str(tmp_path / "site" / f"id{ending}") for ending in ssh_config.BESIDE
    }
