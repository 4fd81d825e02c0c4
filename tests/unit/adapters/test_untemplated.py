"""What goes into an inventory is data: every text in it is marked as no template."""

import json
from ipaddress import IPv4Address
from pathlib import Path

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


def test_whole_inventory_is_marked(tmp_path: Path) -> None:
    hosts = {"gpu-1": {"ansible_host": TEMPLATE, "x": {"y": [TEMPLATE]}, "n": 1}}
    play = Play(Path("p.yml"), (), tmp_path, hosts, {"gpu": ("gpu-1",)}, tmp_path, None, "mark")
    stage_in(tmp_path, play)
    text = (tmp_path / "inventory/hosts.json").read_text()
    everything = json.loads(text)["all"]
    assert everything["hosts"]["gpu-1"]["x"] == {"y": [{"__ansible_unsafe": TEMPLATE}]}
    assert text.count(json.dumps(TEMPLATE)) == text.count(
        json.dumps({"__ansible_unsafe": TEMPLATE})
    )
    assert everything["children"] == {"gpu": {"hosts": {"gpu-1": {}}}}
