"""appliance mig: what a user sees and which exit code follows, without a host."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from appliance.actions.hosts import mig as action
from appliance.actions.sites.opening import Target
from appliance.adapters.process import Completed
from appliance.cli.main import cli
from appliance.config.load import load_profile
from appliance.engine.session import Session
from appliance.models.site import Site
from appliance.stages.mig.layouts import completed, document
from appliance.stages.mig.site import MigHost, MigOptions
from tests.support.engine_fakes import FakeHosts
from tests.support.engine_session import hosts, recorder, session

__all__ = ["hosts", "recorder", "session"]

UNCHANGED = {"gpu": 0, "wanted": "whole", "state": "unchanged", "layout": "whole", "why": ""}
BUSY = {
    **UNCHANGED,
    "gpu": 3,
    "state": "refused",
    "why": "in use by 4711 python3 (ada)",
    "steps": [],
}


@pytest.fixture
def said(session: Session, hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What each host answers; the session stands for every site."""
    answers: dict[str, Any] = {}
    declared = session.site.model_copy(update={"mig": MigOptions(layout="all-balanced")})
    sites = {"site": declared}

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[Session]:
        object.__setattr__(session, "site", sites["site"])
        yield session

    monkeypatch.setattr(action, "open_session", opened)
    hosts.answer = lambda host, argv: Completed(tuple(argv), 0, json.dumps(answers[host]), "")
    return answers


def run(*argv: str) -> Result:
    return CliRunner().invoke(cli, ["mig", *argv], standalone_mode=False)


def test_plan_names_the_processes_of_a_gpu_in_use(said: dict[str, Any]) -> None:
    said |= {"gpu-1": {"gpus": [UNCHANGED, BUSY]}, "gpu-2": {"gpus": []}}
    done = run("plan")
    assert done.return_value == 0
    assert "gpu-1        GPU 3  whole: refused: in use by 4711 python3 (ada)" in done.output
    assert run("plan", "--detailed-exitcode").return_value == 2


def test_plan_of_a_site_as_declared_is_0(said: dict[str, Any]) -> None:
    said |= {"gpu-1": {"gpus": [UNCHANGED]}, "gpu-2": {"gpus": [UNCHANGED]}}
    assert run("plan", "--detailed-exitcode").return_value == 0


def test_a_host_that_cannot_answer_is_1_and_the_others_are_shown(
    said: dict[str, Any], hosts: FakeHosts
) -> None:
    said |= {"gpu-1": {"gpus": [{"gpu": 0, "layout": "whole", "processes": []}]}}
    hosts.down.add("gpu-2")
    done = run("show", "--json")
    assert done.return_value == 1
    told = json.loads(done.output)["hosts"]
    assert told["gpu-1"]["gpus"][0]["layout"] == "whole"
    assert told["gpu-2"] == {
        "error": "it does not answer",
        "fix": "power it on",
        "gpus": None,
    }


def test_one_host_can_be_named_and_an_unknown_one_is_refused(said: dict[str, Any]) -> None:
    said |= {"gpu-2": {"error": "the driver does not answer"}}
    assert "the driver does not answer" in run("show", "--hosts", "gpu-2").output
    assert "no such GPU host" in str(run("show", "--hosts", "head").exception)


def test_nothing_is_disabled_that_the_site_declares(said: dict[str, Any], hosts: FakeHosts) -> None:
    refused = run("disable", "--yes")
    assert "the site declares all-balanced for GPUs of gpu-1" in str(refused.exception)
    assert hosts.calls == []


def test_a_host_that_stays_divided_keeps_the_receipt_that_brings_stage_mig_back(
    said: dict[str, Any], hosts: FakeHosts, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[Session]:
        yield session

    monkeypatch.setattr(action, "open_session", opened)
    answers = {"gpu-1": {"gpus": [UNCHANGED, BUSY]}, "gpu-2": {"gpus": [UNCHANGED]}}

    def answer(host: str, argv: Sequence[str]) -> Completed:
        return Completed(tuple(argv), 0, "" if argv[0] == "rm" else json.dumps(answers[host]), "")

    hosts.answer = answer
    action.disable(Target(Path("x")), session.observer, ())
    assert [host for host, argv, _ in hosts.calls if argv[0] == "rm"] == ["gpu-2"]


@pytest.mark.parametrize("verb", ["apply", "disable"])
def test_without_a_terminal_yes_is_needed(verb: str) -> None:
    assert "add --yes" in str(run(verb).exception)


def test_a_site_without_a_layout_says_how_to_declare_one(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[Session]:
        yield session

    monkeypatch.setattr(action, "open_session", opened)
    with pytest.raises(Exception, match="declares no MIG layout"):
        action.plan(Target(Path("x")), session.observer)


def test_precedence_is_gpu_host_site_profile(session: Session) -> None:
    profile = load_profile("hpc")
    stages = profile.stages.model_copy(update={"mig": "all-1g.10gb"})
    profile = profile.model_copy(update={"stages": stages})

    def layouts(site: Site) -> list[int]:
        said = document(profile, completed(site, profile), site.host("gpu-1"))["gpus"]
        assert isinstance(said, dict)
        return [len(said[str(index)]) for index in range(8)]

    assert layouts(session.site) == [7] * 8
    host = MigHost(layout="all-2g.20gb", gpus={"0,6-7": "disabled"})
    options = MigOptions(layout="all-3g.40gb", hosts={"gpu-1": host})
    assert layouts(session.site.model_copy(update={"mig": options})) == [0, 3, 3, 3, 3, 3, 0, 0]
    options = MigOptions(layout="all-3g.40gb")
    assert layouts(session.site.model_copy(update={"mig": options})) == [2] * 8


NO_ANSWERS: tuple[Any, ...] = (
    {},
    [],
    {"gpus": None},
    {"gpus": [{"layout": "whole"}]},
    {"gpus": [{"gpu": "{{ x }}"}]},
    {"gpus": [{**UNCHANGED, "more": 1}]},
    {"gpus": [{**UNCHANGED, "steps": "x"}]},
)


@pytest.mark.parametrize("answer", NO_ANSWERS)
def test_an_answer_that_is_none_is_that_hosts_failure(answer: Any, said: dict[str, Any]) -> None:
    said |= {"gpu-1": {"gpus": [UNCHANGED]}, "gpu-2": answer}
    done = run("plan")
    assert done.return_value == 1
    assert "gpu-1        GPU 0  whole: as declared" in done.output
    assert "gpu-2        the answer of appliance-mig cannot be read" in done.output


def test_what_a_host_says_of_its_gpus_moves_no_cursor(said: dict[str, Any]) -> None:
    odd = {"gpu": 0, "layout": "x\x1b[2J", "processes": [{"pid": 1, "name": "\x07\n", "user": "a"}]}
    said |= {"gpu-1": {"gpus": [odd]}, "gpu-2": {"error": "no\x1b]0;x\x07"}}
    done = run("show")
    assert "x\\x1b[2J  used by 1 \\x07 (a)" in done.output
    assert all(line.isprintable() for line in done.output.splitlines())
