"""What a key may be is said with its form, its choices and its range."""

import pytest
from pydantic import Field

from appliance.config.accepted_values import in_words
from appliance.models.base import Model
from appliance.models.text_types import Few, HostName, Line, Named
from tools.published.keys import rows


class Section(Model):
    """One key of each kind."""

    choice: bool = True
    port: int = Field(ge=1, le=65_535)
    least: int = Field(default=0, ge=1)
    part: float | None = Field(default=None, gt=0, lt=1)
    title: Line = ""
    hosts: Few[HostName] = ()
    few: Few[HostName] | None = None
    names: Named[HostName, int] = Field(default_factory=dict)
    either: int | str = 1
    free: object = None


HOST = 'a host name (lower-case letters, digits and "-", such as gpu-1)'


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("choice", "true, false"),
        ("port", "whole number, 1 to 65535"),
        ("least", "whole number, 1 or more"),
        ("part", "number, more than 0, less than 1"),
        (
            "title",
            "plain text (one line, without braces and control characters), up to 300 characters",
        ),
        ("hosts", f"{HOST}; up to 64 entries"),
        ("few", f"{HOST}; up to 64 entries"),
        ("names", f"whole number; NAME is {HOST}; up to 1000 entries"),
        ("either", "whole number, text"),
        ("free", "any value"),
    ],
)
def test_a_key_says_what_it_takes(key: str, words: str) -> None:
    document = Section.model_json_schema()
    assert in_words(document["properties"][key], document.get("$defs", {})) == words


def test_of_a_section_nothing_is_said_and_of_its_keys_their_range() -> None:
    takes = {key: words for key, words, _, _ in rows("site")}
    assert takes["access"] == ""
    assert takes["access.port"] == "whole number, 1 to 65535"
    assert takes["hosts[].roles[]"] == "control, gpu, storage, login; 1 to 64 entries"
