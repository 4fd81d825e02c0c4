"""A host whose Python answers every module with what it likes: it speaks for itself alone, and nothing it says is evaluated."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.ansible import LAST_PLAY, HostPlay, Play, play

TASKS: list[dict[str, Any]] = [
    {"name": "ask", "ansible.builtin.ping": {}, "register": "answer"},
    {
        "name": "use",
        "ansible.builtin.set_fact": {"again": "{{ answer.ping }} {{ answer.more | default([]) }}"},
    },
    {"name": "show", "ansible.builtin.debug": {"msg": "{{ again }} {{ ansible_facts }}"}},
    {
        "name": "not taken over",
        "ansible.builtin.assert": {"that": ["ansible_connection == 'local'", "x is undefined"]},
    },
]


def forged(host: str) -> str:
    """An event about another host, as ansible-runner's callback writes one into the output."""
    detail = {"host": host, "task": "ask", "res": {"msg": "forged"}}
    event = {"uuid": "1", "event": "runner_on_failed", "event_data": detail}
    parts = (base64.b64encode(json.dumps(each).encode()).decode() for each in (event, {}))
    return "".join(f"\x1b[K{part}\x1b[{len(part)}D\x1b[K" for part in parts)


def answers(made: Path) -> dict[str, dict[str, object]]:
    """One host for each answer."""
    template = f"{{{{ lookup('pipe', 'touch {made}') }}}}"
    lie = forged("honest")
    return {
        "template": {"ping": template, "more": [{template: template}], "x": template},
        "warning": {"ping": "pong", "warnings": [f"so {lie}"]},
        "message": {"ping": "pong", "failed": True, "msg": f"so {lie}"},
        "key": {"ping": "pong", f"_ansible_{lie}": lie},
        "facts": {"ping": "pong", "ansible_facts": {"ansible_connection": "ssh", "x": template}},
        "inventory": {"ping": "pong", "add_host": {"host_name": "honest", "host_vars": {"x": 1}}},
    }


def hosts(folder: Path) -> dict[str, dict[str, object]]:
    """Variables of each host; all run here."""
    found: dict[str, dict[str, object]] = {"honest": {"ansible_python_interpreter": sys.executable}}
    for name, answer in answers(folder / "MADE").items():
        (folder / f"{name}.json").write_text(json.dumps(answer))
        python = folder / name
        python.write_text(f"#!/bin/sh\ncat > /dev/null\ncat {folder / name}.json\n")
        python.chmod(0o755)
        found[name] = {"ansible_python_interpreter": str(python)}
    return {name: {"ansible_connection": "local", LAST_PLAY: 0, **v} for name, v in found.items()}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, HostPlay]]:
    """How one playbook ended on all of them, and the folder in which a file would have been made."""
    folder = tmp_path_factory.mktemp("hostile")
    plays = ({"hosts": "all", "gather_facts": False, "tasks": TASKS},)
    request = Play(
        folder / "x.yml",
        plays,
        folder,
        hosts(folder),
        {},
        folder / "known_hosts",
        None,
        str(folder),
    )
    return folder, play(request, lambda event: None, lambda host: None, lambda: False)


def test_nothing_a_host_says_is_evaluated(ended: tuple[Path, dict[str, HostPlay]]) -> None:
    folder, plays = ended
    assert not (folder / "MADE").exists()
    assert plays["template"].ok, plays["template"]


def test_no_host_speaks_for_another(ended: tuple[Path, dict[str, HostPlay]]) -> None:
    _, plays = ended
    assert plays["honest"].ok, plays["honest"]
    assert plays["honest"].tasks == len(TASKS)
    assert plays["message"].failed_task == "ask"


@pytest.mark.parametrize("host", ["warning", "key", "facts", "inventory"])
def test_answers_change_no_variable(host: str, ended: tuple[Path, dict[str, HostPlay]]) -> None:
    assert ended[1][host].ok, ended[1][host]
