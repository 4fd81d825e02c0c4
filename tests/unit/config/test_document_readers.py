"""The quick reader of YAML and the one in Python take the same texts for the same data."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.config import document
from appliance.config.finding import InvalidConfig

ROOT = Path(__file__).parents[3]
OURS = sorted(
    {
        *ROOT.glob("profiles/*.yml"),
        *ROOT.glob("appliance/[!l]*/**/*.yml"),
        *ROOT.glob("inventories/**/*.yml"),
    }
)
PIECES = (
    *(
        "a: ",
        "b:",
        "- ",
        "? ",
        "k: v\n",
        "\n",
        "  ",
        "    ",
        " ",
        "{",
        "}",
        "[",
        "]",
        ", ",
        ": ",
        "|\n",
        ">-\n",
    ),
    *(
        "'",
        '"',
        "\\",
        "\\u00e9",
        "#",
        " # c",
        "&x ",
        "*x",
        "!t ",
        "%",
        "@",
        "`",
        "---\n",
        "...\n",
        "é",
        "…",
    ),
    *("1", "-1", "1.30", "0x1", "true", "yes", "~", "null", "52:54:00:12:34:56", "=", "<<", "é: "),
)


def told(text: str, quick: bool) -> object:
    """All that is made of a text, or the objections to it; None where the quick reader leaves it to the other."""
    file = Path("x.yml")
    try:
        node = document._quick(text) if quick else document.compose(text, file)
        if quick and node is None:
            return None
        made = document.built(node, file)
    except InvalidConfig as error:
        return [(finding.line, finding.key, finding.message) for finding in error.findings]
    return repr(made.data), dict(made.lines), dict(made.texts)


@pytest.mark.parametrize("file", OURS, ids=[str(file.relative_to(ROOT)) for file in OURS])
def test_files_of_ours_are_read_quickly_and_alike(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert told(text, quick=True) == told(text, quick=False) is not None


@settings(max_examples=1500, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_what_the_quick_reader_takes_the_other_takes_alike(text: str) -> None:
    quick = told(text, quick=True)
    assert quick is None or quick == told(text, quick=False)
