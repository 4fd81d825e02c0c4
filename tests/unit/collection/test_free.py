"""The strategy of the engine's plays: hosts do not wait for each other, and the control machine does not look in vain."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.process import Completed, run
from appliance.config import data

LOOK = "free host state"
"""ansible-core says so under ANSIBLE_DEBUG whenever it looks at a host."""
TOLD = """
import os
from ansible.plugins.callback import CallbackBase
class CallbackModule(CallbackBase):
    CALLBACK_VERSION, CALLBACK_TYPE, CALLBACK_NAME, CALLBACK_NEEDS_ENABLED = 2.0, "aggregate", "told", True
    def v2_runner_on_ok(self, result):
        with open(os.environ["TOLD"], "a") as told:
            told.write(f"{result._host.get_name()} {result._task.get_name()}\\n")
"""


def _played(folder: Path, play: dict[str, Any], hosts: tuple[str, ...], forks: int) -> Completed:
    (folder / "told.py").write_text(TOLD)
    whole = {"hosts": "all", "gather_facts": False, "strategy": "appliance.host.free", **play}
    (folder / "play.yml").write_text(json.dumps([whole]))
    program = Path(sys.executable).parent / "ansible-playbook"
    python = f"ansible_python_interpreter={sys.executable}"
    inventory = ",".join(hosts) + ","
    argv = (str(program), "-i", inventory, "-c", "local", "-e", python, str(folder / "play.yml"))
    env = {
        "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_COLLECTIONS_PATH": str(data.root() / "playbooks/collections"),
        "ANSIBLE_CALLBACK_PLUGINS": str(folder),
        "ANSIBLE_CALLBACKS_ENABLED": "told",
        "ANSIBLE_FORKS": str(forks),
        "TOLD": str(folder / "told"),
        "ANSIBLE_DEBUG": "true",
        "ANSIBLE_DEPRECATION_WARNINGS": "false",
        "ANSIBLE_NOCOLOR": "true",
    }
    return run(argv, env=env, timeout=120)


def _told(folder: Path) -> list[str]:
    """From a file: on standard output, lines of debugging cut it apart."""
    return (folder / "told").read_text("utf-8").splitlines()


@pytest.mark.parametrize("forks", [2, 1])
def test_hosts_go_on_alone_and_a_named_meta_task_tells_their_end(
    tmp_path: Path, forks: int
) -> None:
    wait = "{{ 2 if inventory_hostname == 'slow' else 0 }}"
    tasks: list[dict[str, Any]] = [
        {"name": "Work", "ansible.builtin.command": {"argv": ["sleep", wait]}},
        {"name": "Through", "ansible.builtin.meta": "end_host", "when": "last | default(true)"},
    ]
    done = _played(tmp_path, {"tasks": tasks}, ("slow", "fast"), forks)
    order = ["fast Work", "fast Through", "slow Work", "slow Through"]
    assert sorted(_told(tmp_path)) == sorted(order)
    assert forks == 1 or _told(tmp_path) == order
    # ansible.builtin.free looks at both hosts for two seconds, and at each a hundred times a second.
    assert 0 < done.stdout.count(LOOK) < 50


def test_a_meta_task_that_is_left_out_tells_nothing(tmp_path: Path) -> None:
    tasks = [
        {"name": "Through", "ansible.builtin.meta": "end_host", "when": "inventory_hostname == 'a'"}
    ]
    _played(tmp_path, {"tasks": tasks}, ("a", "b"), 2)
    assert _told(tmp_path) == ["a Through"]
