"""Every verb finds a site however its folder is written, and wherever the caller stands."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from appliance.actions.sites.opening import Target, open_session
from appliance.adapters.leftovers import mark
from appliance.adapters.process import run
from appliance.cli import options
from appliance.cli.main import cli
from appliance.config.load import load_site
from appliance.engine.session import endpoints
from appliance.errors import ApplianceError
from tests.support.engine_fakes import Recorder
from tests.support.site_folder import SITE, site_folder

__all__ = ["site_folder"]

NAME = '- 100%h of \'a "site" $HOME \\ München'
LOOKING = (
    ("plan",),
    ("health",),
    ("trust", "--yes"),
    ("mig", "show"),
    ("node", "show"),
    ("fabric", "show"),
    ("validate", "storage"),
)
READING = (("report",), ("queue", "show"), ("kubeconfig",), ("etcd", "list"), ("images", "show"))


@dataclass(frozen=True)
class Ended:
    """How a verb ended: its code, what it printed or raised, and whom it called."""

    said: str
    code: int
    called: frozenset[str]


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory, site_folder: Path) -> Path:
    folder = tmp_path_factory.mktemp("there") / NAME
    site_folder.rename(folder)
    (folder / "site.yml").write_text(SITE.replace("  port: 22\n", "  port: 2222\n"))
    key = folder / "secrets/id_ed25519"
    key.unlink()
    run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)))
    return folder


def _run(words: Sequence[str], folder: str, monkeypatch: pytest.MonkeyPatch) -> Ended:
    called: set[str] = set()

    def refuse(address: tuple[str, int], *_: object, **__: object) -> socket.socket:
        called.add(address[0])
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", refuse)
    done = CliRunner().invoke(cli, [*words, f"--site={folder}"], standalone_mode=False)
    error = done.exception
    assert error is None or isinstance(error, ApplianceError | click.ClickException), error
    code = error.exit_code if error else done.return_value
    return Ended(f"{done.output}{error or ''}", code, frozenset(called))


@pytest.mark.parametrize("words", [*LOOKING, *READING], ids=" ".join)
def test_relative_folder_is_the_same_site(
    words: tuple[str, ...], site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link to it"
    tmp_path.mkdir(exist_ok=True)
    link.symlink_to(site)
    absolute = _run(words, str(site), monkeypatch)
    assert bool(absolute.called) == (words in LOOKING), absolute.said
    for place, folder in ((site.parent, NAME), (site, "."), (tmp_path, link.name)):
        monkeypatch.chdir(place)
        ended = _run(words, folder, monkeypatch)
        assert (ended.code, ended.called) == (absolute.code, absolute.called), ended.said


@pytest.mark.parametrize("folder", [f"./{NAME}/", f"{NAME}/site.yml", f"{NAME}/secrets/.."])
def test_folder_may_be_written_in_other_ways(
    folder: str, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(site.parent)
    found = load_site(folder).folder
    assert found.is_absolute()
    assert found.samefile(site)


def test_what_a_site_names_is_absolute_wherever_its_folder_was_written_from(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(site.parent)
    with open_session(Target(Path(NAME)), "plan", Recorder()) as session:
        monkeypatch.chdir("/")
        assert session.folder == site
        for endpoint in endpoints(session.site, session.folder):
            assert endpoint.known_hosts.is_file()
            assert endpoint.private_key is not None
            assert endpoint.private_key.is_file()


def test_run_is_the_same_by_any_way_to_its_folder(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(site)
    assert mark(Path("runs/r1")) == mark(site / "runs" / "r1")


def test_profile_beside_a_site_is_found_from_anywhere(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site / "own profile.yml").write_text((Path("profiles") / "hpc.yml").read_text())
    text = (site / "site.yml").read_text()
    (site / "site.yml").write_text(text.replace("profile: hpc", 'profile: "./own profile.yml"'))
    monkeypatch.chdir(site.parent)
    assert load_site(NAME).profile.name == "hpc"
    assert options.command_line(Path(NAME), None, "plan").endswith("München'")
