"""The controller's half of appliance.host.apply: what it makes of a role's entries before a host hears of them."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

Settle = Callable[..., dict[str, Any]]


def trusted(value: Any) -> Any:
    """As a role's own text is read: its texts are templates."""
    if isinstance(value, str):
        return trust_as_template(value)
    if isinstance(value, dict):
        return {key: trusted(inner) for key, inner in value.items()}
    return [trusted(inner) for inner in value] if isinstance(value, list) else value


@pytest.fixture
def calls() -> list[tuple[str, Any]]:
    """Modules that were sent to the host, with their arguments."""
    return []


@pytest.fixture
def settle(
    plugin: Callable[[str], ModuleType], calls: list[tuple[str, Any]], tmp_path: Path
) -> Settle:
    """Runs the action on entries; a host of Debian 12 answers."""

    def execute(module: str, given: Any, **_: Any) -> dict[str, Any]:
        calls.append((module, json.loads(given["resources"]) if "resources" in given else given))
        facts = {"distribution": "Debian", "distribution_major_version": "12", "os_family": "Debian"}  # fmt: skip
        return {"ansible_facts": facts} if module.endswith("setup") else {"done": {}}

    def once(*entries: dict[str, Any], refuse: Any = (), **variables: Any) -> dict[str, Any]:
        known = {"role_name": "it", "role_path": str(tmp_path), **variables}
        args = trusted({"refuse": list(refuse), "resources": list(entries)})
        task = SimpleNamespace(args=args, async_val=0, delegate_to=None, check_mode=False)
        templar = Templar(loader=DataLoader(), variables=known)
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/none"))
        kind = plugin("action.apply").ActionModule
        action = kind(task, connection, None, DataLoader(), templar, None)
        action._execute_module = execute
        answer: dict[str, Any] = action.run(task_vars=known)
        return answer

    return once


def sent(calls: list[tuple[str, Any]]) -> dict[str, Any]:
    """Arguments of each entry that went to the host, by its name."""
    ((_, entries),) = [call for call in calls if call[0] == "appliance.host.apply"]
    return {entry["name"]: entry["arguments"] for entry in entries}


ONE = {"name": "service | Bring {{ item.name }}", "swap": {"file": "{{ item.name }}-{{ kind }}"}}


def test_a_looped_entry_is_applied_once_for_each_item_in_their_order(settle: Settle, calls: Any) -> None:  # fmt: skip
    looped = {**ONE, "loop": "{{ charts }}", "when": "item.name != 'b'", "vars": {"kind": "x"}}
    settle(looped, charts=[{"name": "c"}, {"name": "b"}, {"name": "a"}])
    assert list(sent(calls).items()) == [
        ("service | Bring c", {"file": "c-x"}),
        ("service | Bring a", {"file": "a-x"}),
    ]


def test_what_stands_in_an_item_is_data(settle: Settle, calls: Any) -> None:
    settle({**ONE, "loop": "{{ charts }}"}, kind="x", charts=[{"name": "{{ kind }}"}])
    assert sent(calls) == {"service | Bring {{ kind }}": {"file": "{{ kind }}-x"}}


def test_entries_of_one_name_are_refused_before_the_host_is_touched(settle: Settle, calls: Any) -> None:  # fmt: skip
    with pytest.raises(AnsibleActionFail, match=r'two entries are named "service . Bring a"'):
        settle({**ONE, "loop": "{{ charts }}"}, kind="x", charts=[{"name": "a"}, {"name": "a"}])
    assert calls == []


def test_a_host_that_nothing_is_wanted_of_is_not_asked(settle: Settle, calls: Any) -> None:
    answer = settle({**ONE, "loop": []}, {"name": "service | B", "when": "false", "swap": {}})
    assert (answer["done"], answer["resources"], calls) == ({}, [], [])


@pytest.mark.parametrize("lists", [["main.yml"], ["main.yml", "Debian.yml"]])
def test_a_host_is_asked_for_its_distribution_where_lists_differ_by_it(
    settle: Settle, calls: Any, tmp_path: Path, lists: list[str]
) -> None:
    (tmp_path / "vars").mkdir()
    for name in lists:
        (tmp_path / "vars" / name).write_text("it_word: \"{{ 'de' ~ 'b' }}\"\n")
    settle({"name": "service | A", "swap": {"file": "{{ it_word | default('none') }}"}})
    asked = [name for name, _ in calls if name == "ansible.builtin.setup"]
    assert len(asked) == len(lists) - 1
    assert sent(calls) == {"service | A": {"file": "deb" if asked else "none"}}


def test_what_is_refused_is_said_and_the_host_is_not_touched(settle: Settle, calls: Any) -> None:
    no = [{"when": "it_number > 3", "message": "it_number is {{ it_number }}"}]
    assert settle({"name": "service | A", "swap": {}}, refuse=no, it_number=4)["msg"] == "it_number is 4"  # fmt: skip
    assert calls == []
    assert not settle({"name": "service | A", "swap": {}}, refuse=no, it_number=3).get("failed")
    assert list(sent(calls)) == ["service | A"]
