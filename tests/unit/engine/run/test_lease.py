"""Two control machines and the same hosts: the note on each host, kept by the real program in a folder of the test."""

import json
import subprocess  # noqa: TID251 - runs what is sent to hosts
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.adapters.process import Completed
from appliance.engine.run import lease as leasing
from appliance.engine.run.lease import (
    LeaseHeld,
    hosts_changed,
    leased,
    report_held_leases,
    require_free,
)
from appliance.engine.session import Session
from appliance.models.events import Message
from appliance.models.plan import Action, HostStage, Plan
from appliance.probe import lease as on_host
from appliance.probe.ask import Ask
from appliance.probe.collectors import receipts
from appliance.probe.state import Observer
from tests.support.engine_fakes import PASSWORD, Recorder, stage_of
from tests.support.engine_session import hosts, recorder, session
from tests.support.facts import facts_of
from tests.support.lease_rack import ALL, Rack, mine, rack, theirs

__all__ = ["hosts", "mine", "rack", "recorder", "session", "theirs"]


@pytest.mark.parametrize("more", [{}, {"who": "ada", "run": "r-1", "verb": "deploy"}])
def test_a_host_that_is_never_free_keeps_nobody_from_the_others(
    more: dict[str, str], mine: Session, rack: Rack, recorder: Recorder
) -> None:
    rack.told["gpu-1"] = json.dumps({"held": more})
    with pytest.raises(LeaseHeld), leased(mine, ALL):
        pass
    with leased(mine, ALL, lambda _: True):
        assert rack.note("gpu-2")["run"] == mine.run
    assert "gpu-1: other control machines cannot see that this run changes the host" in said(
        recorder
    )
    assert not rack.note("gpu-2")


def said(recorder: Recorder) -> str:
    return "\n".join(f"{e.host}: {e.text}" for e in recorder.events if isinstance(e, Message))


def test_hosts_are_held_while_a_run_changes_them_and_no_longer(mine: Session, rack: Rack) -> None:
    with leased(mine, ALL):
        for host in ALL:
            note = rack.note(host)
            assert (note["run"], note["verb"]) == ("r1", "deploy")
            assert "@" in note["who"]
            assert note["since"].endswith("Z")
            assert (rack.at(host) / "lease").stat().st_mode & 0o777 == 0o600
    assert [rack.note(host) for host in ALL] == [{}, {}, {}]


def test_what_is_sent_to_a_host_runs_there_alone(mine: Session, rack: Rack, tmp_path: Path) -> None:
    with leased(mine, ("gpu-1",)):
        pass
    _, argv, source = rack.calls[0]
    place = repr(str(tmp_path / "host")).encode()
    done = subprocess.run(
        (sys.executable, *argv[1:]),
        input=source.replace(b'"/var/lib/appliance"', place),
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout) == {"taken": True, "before": None}
    assert (tmp_path / "host").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "host/lease").stat().st_mode & 0o777 == 0o600


def test_a_run_that_changes_nothing_asks_no_host(mine: Session, rack: Rack) -> None:
    with leased(mine, ()):
        pass
    assert rack.calls == []


def test_a_second_control_machine_is_told_by_whom_and_holds_nothing(
    mine: Session, theirs: Session, rack: Rack
) -> None:
    with leased(theirs, ("gpu-1",)):
        with pytest.raises(LeaseHeld) as refusal, leased(mine, ALL):
            pytest.fail("something would be changed")
        assert rack.note("gpu-1")["run"] == "r-theirs"
        assert (rack.note("head"), rack.note("gpu-2")) == ({}, {})
    assert refusal.value.exit_code == 2
    assert refusal.value.message.startswith("gpu-1 is being changed by ")
    assert "(run r-theirs, deploy)" in refusal.value.message
    assert "--take-over" in refusal.value.hint
    assert "exclude these hosts" in refusal.value.hint


def test_hosts_of_others_do_not_matter(mine: Session, theirs: Session, rack: Rack) -> None:
    with leased(theirs, ("gpu-1",)), leased(mine, ("gpu-2", "head")):
        assert rack.note("gpu-2")["run"] == "r1"


def test_taking_over_is_asked_with_the_name_and_the_other_run_gives_back_nothing_of_ours(
    mine: Session, theirs: Session, rack: Rack, recorder: Recorder
) -> None:
    asked: list[str] = []

    def consent(sentence: str) -> bool:
        asked.append(sentence)
        return True

    with leased(mine, ALL, consent):
        with leased(theirs, ("gpu-1",), consent):
            assert rack.note("gpu-1")["run"] == "r-theirs"
        assert rack.note("gpu-1") == {}
    assert len(asked) == 1
    assert "(run r1, deploy)" in asked[0]
    assert "gpu-1: takes over from" in said(recorder)
    with leased(theirs, ("gpu-1",)), leased(mine, ("gpu-1",), lambda _: True):
        pass
    assert rack.note("gpu-1") == {}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_hosts_are_given_back_whatever_ends_the_run(
    error: type[BaseException], mine: Session, rack: Rack
) -> None:
    with pytest.raises(error), leased(mine, ALL):
        raise error
    assert [rack.note(host) for host in ALL] == [{}, {}, {}]


def test_a_run_that_stops_at_once_does_not_wait_for_a_frozen_host(
    mine: Session, rack: Rack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leasing, "AT_ONCE_S", 0.01)

    def stop() -> None:
        with leased(mine, ALL):
            rack.frozen = {"gpu-1"}
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    # It would have been let go only by the end of the test.
    assert not rack.over.is_set()


def test_own_run_that_was_killed_holds_nothing_against_the_next(mine: Session, rack: Rack) -> None:
    dead = leased(replace(mine, run="r-killed"), ALL)
    dead.__enter__()
    with leased(mine, ALL, lambda _: pytest.fail("asked")):
        assert {rack.note(host)["run"] for host in ALL} == {"r1"}


@pytest.mark.parametrize(
    ("changes", "is_free"),
    [
        ({}, False),
        ({"seconds": 0}, True),
        ({"seconds": 1e9, "at": -4000.0}, True),
        ({"at": 1e12}, True),
        ({"at": "x"}, True),
        ({"seconds": None}, True),
        ({"boot": "earlier", "seconds": 0}, True),
        ({"owner": 5}, False),
    ],
)
def test_a_note_is_void_once_it_is_old_by_the_hosts_own_time(
    changes: dict[str, object], is_free: bool, mine: Session, theirs: Session, rack: Rack
) -> None:
    dead = leased(theirs, ("gpu-1",))
    dead.__enter__()
    rack.age("gpu-1", **changes)
    if is_free:
        with leased(mine, ("gpu-1",)):
            assert rack.note("gpu-1")["run"] == "r1"
    else:
        with pytest.raises(LeaseHeld), leased(mine, ("gpu-1",)):
            pass


def test_a_host_that_restarted_is_held_for_as_long_as_it_runs() -> None:
    note = {"boot": "a", "at": 5000.0, "seconds": 900.0}
    assert not on_host.is_old(note, {"boot": "b", "at": 30.0})
    assert on_host.is_old(note, {"boot": "b", "at": 901.0})


def test_a_sign_of_life_keeps_a_host_and_a_lost_one_is_told(
    mine: Session, theirs: Session, rack: Rack, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with leased(mine, ("gpu-1", "gpu-2")):
        rack.age("gpu-1", at=1.0)
        assert leasing._asked(mine, "gpu-1", "renew", 5) == {"renewed": True}
        assert rack.note("gpu-1")["at"] > 1.0
        with leased(theirs, ("gpu-2",), lambda _: True):
            told = leasing._asked(mine, "gpu-2", "renew", 5)
            assert isinstance(told, dict)
            assert "lost" in told


def test_a_host_that_another_run_changes_is_not_turned_off(
    mine: Session, theirs: Session, rack: Rack
) -> None:
    require_free(mine, ALL)
    with leased(mine, ALL):
        require_free(mine, ALL)
    with leased(theirs, ("gpu-1",)):
        require_free(mine, ("head",))
        with pytest.raises(LeaseHeld, match="gpu-1 is being changed by"):
            require_free(mine, ALL)
        assert rack.note("head") == {}
        rack.age("gpu-1", seconds=0)
        require_free(mine, ALL)
    rack.told["gpu-1"] = "?"
    rack.down.add("head")
    require_free(mine, ALL)


def test_a_look_at_a_host_names_who_changes_it(
    mine: Session, theirs: Session, rack: Rack, recorder: Recorder
) -> None:
    with leased(theirs, ("gpu-1",)):
        text = (rack.at("gpu-1") / "lease").read_text()
        note = on_host.held(text)
        facts = {"gpu-1": facts_of("gpu-1", lease=note), "gpu-2": facts_of("gpu-2")}
        report_held_leases(mine, facts)
        assert "gpu-1 is being changed by " in said(recorder)
        assert "(run r-theirs, deploy)" in said(recorder)
        recorder.events.clear()
        report_held_leases(theirs, facts)
        rack.age("gpu-1", seconds=0)
        assert on_host.held((rack.at("gpu-1") / "lease").read_text()) == {}
    assert on_host.held("") == on_host.held("[]") == on_host.held("{") == {}
    assert said(recorder) == ""


def test_the_probe_brings_the_note_of_a_host_at_work(theirs: Session, rack: Rack) -> None:
    ask = Ask({}, str(rack.folder / "root"))
    rack.folder.joinpath("root/var/lib").mkdir(parents=True)
    place = rack.folder / "root/var/lib/appliance"
    place.mkdir()
    request = {"do": "take", "over": False, "note": leasing._note(theirs)}
    on_host.answer(request, str(place))
    found = receipts.collect(ask, {}, Observer(ask, []))
    assert found["lease"]["run"] == "r-theirs"
    on_host.answer({**request, "do": "release"}, str(place))
    assert receipts.collect(ask, {}, Observer(ask, [])) == {"receipts": {}}


LIES = {
    "nothing": "",
    "no JSON": "\x1b[2J",
    "a list": "[]",
    "too long": json.dumps({"taken": True, "x": "y" * 100_000}),
    "no word of it": "{}",
    "neither": '{"taken": "perhaps"}',
}


@pytest.mark.parametrize("lie", LIES)
def test_a_host_that_talks_nonsense_is_worked_on_as_ever(
    lie: str, mine: Session, rack: Rack, recorder: Recorder
) -> None:
    rack.told["gpu-1"] = LIES[lie]
    with leased(mine, ALL):
        assert rack.note("gpu-2")["run"] == "r1"
    assert "gpu-1: other control machines cannot see" in said(recorder)


def test_what_a_host_says_of_a_holder_is_one_short_line(mine: Session, rack: Rack) -> None:
    note = {"who": "\x1b[31mroot\n" * 400, "run": ["x"], "since": "y" * 9000, "verb": "‮"}
    rack.told["gpu-1"] = json.dumps({"held": note})
    with pytest.raises(LeaseHeld) as refusal, leased(mine, ALL):
        pass
    assert len(refusal.value.message) < 400
    assert refusal.value.message.isprintable()
    assert refusal.value.message.startswith("gpu-1 is being changed by ")
    assert rack.note("head") == {}


def test_many_holders_are_told_in_a_line(mine: Session, rack: Rack) -> None:
    for host in ALL:
        rack.told[host] = json.dumps({"held": {"who": f"{host}@x" * 50, "run": "r", "verb": "v"}})
    with pytest.raises(LeaseHeld) as refusal, leased(mine, ALL):
        pass
    assert len(refusal.value.message) < 900


def test_a_host_that_is_away_is_told_by_its_stages(
    mine: Session, rack: Rack, recorder: Recorder
) -> None:
    rack.down.add("gpu-1")
    with leased(mine, ALL):
        assert rack.note("gpu-2")["run"] == "r1"
    assert said(recorder) == ""


def planted(folder: Path, kind: str) -> Path:
    victim = folder.parent / "victim"
    victim.parent.mkdir(parents=True, exist_ok=True)
    victim.write_text("of value")
    if kind == "folder":
        (folder.parent / "elsewhere").mkdir()
        folder.symlink_to(folder.parent / "elsewhere")
        return victim
    folder.mkdir(parents=True)
    file = folder / "lease"
    if kind == "link":
        file.symlink_to(victim)
    elif kind == "hard link":
        file.hardlink_to(victim)
    elif kind == "open":
        folder.chmod(0o777)
    else:
        file.mkdir()
    return victim


@pytest.mark.parametrize("kind", ["link", "hard link", "folder", "open", "a folder"])
def test_a_note_that_leads_elsewhere_on_a_host_is_not_written(
    kind: str, mine: Session, rack: Rack, recorder: Recorder
) -> None:
    victim = planted(rack.at("gpu-1"), kind)
    with leased(mine, ("gpu-1",)):
        pass
    assert victim.read_text() == "of value"
    assert "gpu-1: other control machines cannot see" in said(recorder)


@pytest.mark.parametrize("text", ["{", "[]", "x" * 9000, "", '{"run": ""}', "[" * 4000])
def test_a_note_that_was_cut_off_holds_nobody(text: str, mine: Session, rack: Rack) -> None:
    rack.at("gpu-1").mkdir(parents=True)
    (rack.at("gpu-1") / "lease").write_text(text)
    with leased(mine, ("gpu-1",)):
        assert rack.note("gpu-1")["run"] == "r1"


def test_of_two_that_come_at_once_one_is_refused(
    mine: Session, theirs: Session, rack: Rack
) -> None:
    inside, refused = [0], [0]
    ready, go_on = threading.Barrier(2), threading.Barrier(2)

    def work(one: Session) -> None:
        ready.wait()
        try:
            with leased(one, ("gpu-1",)):
                inside[0] += 1
                go_on.wait()
        except LeaseHeld:
            refused[0] += 1
            go_on.wait()

    working = [threading.Thread(target=work, args=(one,)) for one in (mine, theirs)]
    for one in working:
        one.start()
    for one in working:
        one.join(30)
    assert (inside, refused) == ([1], [1])


def test_hosts_of_a_plan_are_those_it_may_come_to_change(session: Session) -> None:
    def cell(stage: str, host: str, action: Action) -> HostStage:
        return HostStage(stage=stage, host=host, action=action, why="")

    one, two = stage_of("one"), stage_of("two", "one", facts_from=("one",))
    three = stage_of("three")
    cells = (
        cell("one", "gpu-1", Action.RUN),
        cell("two", "gpu-2", Action.SKIP),
        cell("three", "head", Action.SKIP),
    )
    names = {"site": "acme", "profile": "hpc", "hosts": ALL}
    plan = Plan.model_validate({**names, "stages": ("one", "two", "three"), "cells": cells})
    assert hosts_changed(session, plan, (one, two, three)) == ("gpu-1", "gpu-2")
    rest = (cell("one", "gpu-1", Action.SKIP),)
    at_rest = Plan.model_validate({**names, "stages": ("one",), "cells": rest})
    assert hosts_changed(session, at_rest, (one,)) == ()


CANNOT_TELL = "other control machines cannot see that this run changes the host: "


@pytest.mark.parametrize("before", [8192 - 9, 8192 - 9 - len(CANNOT_TELL)])
def test_a_secret_that_stands_where_an_answer_is_cut_is_not_told(
    mine: Session, rack: Rack, recorder: Recorder, before: int
) -> None:
    def run(host: str, argv: Sequence[str], **_: object) -> Completed:
        return Completed(tuple(argv), 1, "", "." * before + PASSWORD)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rack, "run", run)
        with leased(mine, ("gpu-1",)):
            pass
    assert CANNOT_TELL + "....." in said(recorder)
    assert PASSWORD[:5] not in said(recorder)
