"""What users and their programs rely on is what was recorded: names, types and defaults."""

from typing import Any

from tests.interface import RECORDED, kind, summary

ACCEPT = "if this is meant: say it in CHANGELOG.md, then make golden (see CONTRIBUTING.md, Versions and tags)"


def test_the_public_interface_is_the_recorded_one() -> None:
    before, now = (text.splitlines() for text in (RECORDED.read_text(), summary()))
    gone = [f"-{line}" for line in before if line not in set(now)]
    new = [f"+{line}" for line in now if line not in set(before)]
    breaks = ["gone or changed, which breaks sites, scripts or readers:", *gone] if gone else []
    shown = "\n".join([ACCEPT, *breaks, *(["new:", *new] if new else [])])
    assert not gone, shown
    assert not new, shown
    assert before == now, f"in another order; {ACCEPT}"


def test_types_are_told_in_few_words() -> None:
    assert kind({"type": "array", "items": {"enum": ["a", "b"]}}) == "[a | b]"
    assert kind({"anyOf": [{"type": "integer"}, {"type": "null"}]}) == "integer | null"
    assert kind({"type": "object", "additionalProperties": {"$ref": "#/$defs/Host"}}) == "{Host}"
    assert kind({"type": "object", "patternProperties": {"^a$": {"type": "number"}}}) == "{number}"
    assert kind({"const": 1}) == "1"
    assert kind({}) == "any"
    forms: dict[str, Any] = {"Owner": {"enum": ["slurm", "kubernetes"]}, "Host": {"type": "object"}}
    assert kind({"$ref": "#/$defs/Owner"}, forms) == "slurm | kubernetes"
    assert kind({"$ref": "#/$defs/Host"}, forms) == "Host"
