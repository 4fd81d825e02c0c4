"""What goes into an inventory is data: every text in it is marked as no template."""

import json
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.ansible import Play, stage_in, untemplated
from appliance.config.secrets import Secret
from appliance.errors import ConfigError
from appliance.models.site import Role

TEMPLATE = "{{ lookup('pipe', 'id') }}"


def test_text_is_marked_wherever_it_stands() -> None:
    given = {"a": TEMPLATE, "b": [TEMPLATE, (TEMPLATE,)], "c": {"d": {TEMPLATE: TEMPLATE}}}
    marked = {"__ansible_unsafe": TEMPLATE}
    assert untemplated(given) == {
        "a": marked,
        "b": [marked, [marked]],
        "c": {"d": {TEMPLATE: marked}},
    }


@pytest.mark.parametrize("value", [True, False, 0, 17, 1.5, None])
def test_what_is_no_text_stays_as_it_is(value: object) -> None:
    assert untemplated(value) is value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (IPv4Address("10.0.0.1"), "10.0.0.1"),
        (Secret("hush"), "hush"),
        (Role.GPU, "gpu"),
        (Path("/a {{b}}"), "/a {{b}}"),
    ],
)
def test_other_things_are_written_as_text(value: object, text: str) -> None:
    assert untemplated(value) == {"__ansible_unsafe": text}


@pytest.mark.parametrize("key", ["__ansible_unsafe", "__ansible_vault", "__ansible_type"])
def test_key_that_ansible_reads_as_a_mark_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        untemplated({"config": [{key: "x"}]})


@pytest.mark.parametrize("shared", [True, False])
def test_connections_lie_where_plays_share_them_else_in_the_plays_own_folder(
    tmp_path: Path, *, shared: bool
) -> None:
    folder, connections = tmp_path / "play", tmp_path / "connections"
    folder.mkdir()
    play = Play(Path("p.yml"), (), tmp_path, {}, {}, tmp_path, None, "mark")
    play = replace(play, connections=connections if shared else None)
    place = stage_in(folder, play)["ANSIBLE_SSH_CONTROL_PATH_DIR"]
    assert place == str((connections if shared else folder) / "cp")


def test_whole_inventory_is_marked(tmp_path: Path) -> None:
    hosts = {"gpu-1": {"ansible_host": TEMPLATE, "x": {"y": [TEMPLATE]}, "n": 1}}
    play = Play(Path("p.yml"), (), tmp_path, hosts, {"gpu": ("gpu-1",)}, tmp_path, None, "mark")
    stage_in(tmp_path, play)
    text = (tmp_path / "inventory/hosts.json").read_text()
    everything = json.loads(text)["all"]
    assert everything["hosts"]["gpu-1"]["ansible_host"] == {"__ansible_unsafe": TEMPLATE}
    assert everything["vars"]["x"] == {"y": [{"__ansible_unsafe": TEMPLATE}]}
    assert text.count(json.dumps(TEMPLATE)) == text.count(
        json.dumps({"__ansible_unsafe": TEMPLATE})
    )
    assert everything["children"] == {"gpu": {"hosts": {"gpu-1": {}}}}


def test_what_all_hosts_share_is_written_once(tmp_path: Path) -> None:
    nodes = [{"name": TEMPLATE}]
    hosts: dict[str, dict[str, object]] = {
        "gpu-1": {"nodes": nodes, "alike": ["x"], "own": "1", "kind": 1, "only": 1},
        "gpu-2": {"nodes": nodes, "alike": ["x"], "own": "2", "kind": True},
    }
    everything = inventory(tmp_path, hosts)
    marked = {"__ansible_unsafe": TEMPLATE}
    assert everything["vars"] == {
        "nodes": [{"name": marked}],
        "alike": [{"__ansible_unsafe": "x"}],
    }
    one, other = everything["hosts"]["gpu-1"], everything["hosts"]["gpu-2"]
    assert (one["kind"], other["kind"], one["only"]) == (1, True, 1)
    assert [type(found["kind"]) for found in (one, other)] == [int, bool]
    assert [sorted(found) for found in (one, other)] == [["kind", "only", "own"], ["kind", "own"]]


def test_how_a_host_is_reached_is_told_of_that_host_alone(tmp_path: Path) -> None:
    reached: dict[str, object] = {"ansible_user": "root", "ansible_become": True}
    everything = inventory(tmp_path, {"gpu-1": reached, "gpu-2": reached})
    assert everything["vars"] == {}
    assert [sorted(found) for found in everything["hosts"].values()] == [sorted(reached)] * 2


def test_mark_in_a_shared_variable_is_refused(tmp_path: Path) -> None:
    shared: dict[str, object] = {"config": {"__ansible_vault": "x"}}
    with pytest.raises(ConfigError, match="__ansible_vault"):
        inventory(tmp_path, {"gpu-1": shared, "gpu-2": shared})


def inventory(folder: Path, hosts: dict[str, dict[str, object]]) -> Any:
    """What is written of these hosts."""
    play = Play(Path("p.yml"), (), folder, hosts, {}, folder, None, "mark")
    stage_in(folder, play)
    return json.loads((folder / "inventory/hosts.json").read_text())["all"]
