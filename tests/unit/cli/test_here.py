"""The site a verb means that is given none: the current folder's, else the virtual rack, and never the one for the other."""

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from appliance.actions.sites.opening import RACK_RUNS, Target, locate, runs_of, site_here
from appliance.cli import options
from appliance.cli.main import cli
from appliance.errors import ConfigError
from appliance.lab import rack, spec
from appliance.lab.spec import RackSpec, numbered
from appliance.models.events import Message
from tests.support.engine_fakes import Recorder
from tests.support.site_folder import site_folder

__all__ = ["site_folder"]


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words, standalone_mode=False)


def test_a_site_in_the_current_folder_is_the_one_that_is_meant(
    site_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(site_folder)
    target = options.target(None, None)
    assert target.is_here
    assert not target.embedded
    assert locate(target, raise_rack=True, observer=Recorder()).site.name == "acme"
    assert runs_of(target).resolve() == site_folder / "runs"
    named = options.target(Path("/other"), None)
    assert (named.inventory, named.is_here) == (Path("/other"), False)


@pytest.mark.parametrize("kind", ["wrong", "dangling", "unreadable", "folder"])
@pytest.mark.parametrize("verb", ["plan", "deploy", "health", "queue show"])
def test_a_site_of_the_current_folder_that_is_wrong_is_no_reason_to_take_the_rack(
    verb: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rack, "up", lambda *_: pytest.fail("the rack was raised"))
    file = tmp_path / "site.yml"
    match kind:
        case "wrong":
            file.write_text("version: 1\nname: 7\n", encoding="utf-8")
        case "dangling":
            file.symlink_to("nowhere")
        case "folder":
            file.mkdir()
        case _ if not os.geteuid():
            file.symlink_to("site.yml")
        case _:
            file.touch(mode=0o000)
    words = [*verb.split(), *(["--yes"] if verb == "deploy" else [])]
    error = run(*words).exception
    assert isinstance(error, ConfigError)
    assert "site.yml" in str(error)


def test_a_folder_that_cannot_be_searched_is_not_taken_for_one_without_a_site(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def closed(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("os.lstat", closed)
    with pytest.raises(ConfigError, match="current folder cannot be read"):
        site_here()


def test_a_deployment_without_a_site_raises_no_rack_that_nobody_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rack, "up", lambda *_: pytest.fail("the rack was raised"))
    error = run("deploy", "--yes").exception
    assert isinstance(error, ConfigError)
    assert "no virtual rack is running" in error.message
    assert "appliance deploy --profile hpc" in error.hint


def test_a_site_is_not_deployed_without_a_part_of_it(site_folder: Path) -> None:
    error = run("deploy", "--yes", "--site", str(site_folder), "--without", "kubernetes")
    assert isinstance(error.exception, click.UsageError)
    assert "take section kubernetes out of its site.yml" in error.exception.message


@pytest.mark.parametrize(
    ("flags", "hosts"), [((), 6), (("--without", "kubernetes"), 3)], ids=["complete", "quick"]
)
def test_deploy_raises_a_complete_rack_or_one_without_kubernetes(
    flags: tuple[str, ...], hosts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[RackSpec] = []

    def up(wanted: RackSpec, _: object) -> None:
        seen.append(wanted)
        raise ConfigError("it stands nowhere", "")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    monkeypatch.setattr(rack, "up", up)
    run("deploy", "--profile", "hpc", "--yes", *flags)
    (wanted,) = seen
    assert (wanted.hosts, wanted.complete) == (hosts, hosts == 6)


@pytest.mark.parametrize("verb", ["health", "plan", "validate"])
def test_a_look_without_a_site_is_no_failure_of_one(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    error = run(verb).exception
    assert isinstance(error, ConfigError)
    assert "no virtual rack is running" in error.message


def test_a_profile_asks_for_the_rack_and_the_first_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Raised(Exception):
        pass

    def up(*_: object) -> None:
        raise Raised

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rack, "up", up)
    observer = Recorder()
    with pytest.raises(Raised):
        locate(Target(None, "hpc"), raise_rack=True, observer=observer)
    (first,) = observer.events
    assert isinstance(first, Message)
    assert "no --site, and no site.yml here: starting a virtual rack" in first.text
    assert "6 hosts with Kubernetes and KAI, 2 of them Slurm's (about " in first.text


def test_the_racks_own_folder_has_the_runs_that_outlive_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    for name, runs in (("rack", RACK_RUNS), ("mine", tmp_path / "mine/site/runs")):
        (tmp_path / name / "site").mkdir(parents=True)
        assert runs_of(Target(tmp_path / name / "site")) == runs
    (tmp_path / "link").symlink_to("rack")
    assert runs_of(Target(tmp_path / "link/site")) == RACK_RUNS


def test_a_rack_that_goes_with_reports_says_how_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    monkeypatch.setattr(rack, "down", lambda _: True)
    made = numbered(RackSpec("mine"), 1, {})
    monkeypatch.setattr(rack, "load", lambda _: made)
    report = made.site_dir / "runs/r1/report.json"
    report.parent.mkdir(parents=True)
    report.touch()
    assert (
        f"This also deletes 1 report in {made.site_dir / 'runs'}."
        in run("lab", "down", "--name", "mine").output
    )
