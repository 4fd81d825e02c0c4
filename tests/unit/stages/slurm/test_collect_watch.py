"""What the host's own watch left, and what it says when asked anew: only where it is out and may come back."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from appliance.models.watch import Watch
from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable
from appliance.stages.slurm.collect import watch

LOOK = "#!/bin/sh\ntouch {root}/asked\n[ $# = 1 ] && [ $1 = look ] || exit 5\n{end}\n"
OUT: dict[str, Any] = {"slurm": "out", "returns": True}


@pytest.fixture(autouse=True)
def _as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def collected(root: Path, end: str = "exit 0", **said: Any) -> tuple[dict[str, Any], Ask]:
    program, state = root / "usr/local/sbin/appliance-watch", root / "run/appliance/watch.json"
    for file in (program, state):
        file.parent.mkdir(parents=True)
    program.write_text(LOOK.format(root=root, end=end))
    program.chmod(0o755)
    kept = {"version": 1, "time": time.time(), "causes": [], "gaps": [], "slurm": "", **said}
    state.write_text(json.dumps(kept))
    ask = Ask({}, str(root))
    return watch.collect(ask)["watch"], ask


@pytest.mark.parametrize(("end", "fit"), [("exit 0", True), ("exit 1", False)])
def test_a_host_that_is_out_is_asked_whether_it_is_fit_by_now(
    tmp_path: Path, end: str, fit: bool
) -> None:
    found, ask = collected(tmp_path, end, **OUT)
    assert (found["fit"], ask.errors) == (fit, {})
    assert Watch.model_validate(found).returns


@pytest.mark.parametrize(
    "said", [{}, {"slurm": "out"}, {"slurm": "out", "returns": False}, {"slurm": "over"}]
)
def test_nobody_else_is_asked(tmp_path: Path, said: dict[str, Any]) -> None:
    found, ask = collected(tmp_path, **said)
    assert (found["fit"], ask.errors) == (None, {})
    assert not (tmp_path / "asked").exists()


def test_an_answer_that_is_none_is_a_gap(tmp_path: Path) -> None:
    found, ask = collected(tmp_path, "echo its settings are gone >&2; exit 2", **OUT)
    assert (found["fit"], ask.errors) == (
        None,
        {"watch": "appliance-watch look: its settings are gone"},
    )


def test_a_user_who_cannot_see_all_is_not_told_that_it_is_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found, ask = collected(tmp_path, **OUT)
    assert found["fit"] is None
    assert ask.problems[0]["kind"] == "denied"


def test_a_note_that_is_none_is_no_fact(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="cannot be read"):
        collected(tmp_path, causes=["x"])
