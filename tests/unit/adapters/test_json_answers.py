"""JSON of another machine: read, or refused in one line, never a traceback."""

import pytest

from appliance.adapters.json_answers import parsed

BAD = {
    "nested": ("[" * 100_000, "nested too deeply"),
    "objects": ('{"a":' * 100_000, "nested too deeply"),
    "twice": ('{"a": 1, "a": 2}', "'a' is in it twice"),
    "twice below": ('[{"b": {"a\\u001b": 1, "a\\u001b": 2}}]', "twice"),
    "nan": ('{"a": NaN}', "NaN is not a number"),
    "infinity": ("[-Infinity]", "-Infinity is not a number"),
    "huge": ("[1e999]", "out of range"),
    "digits": ("9" * 5000, "digits"),
    "empty": ("", "not JSON"),
    "cut": ('{"a": ', "not JSON"),
    "word": ("hello\x1b[2J", "not JSON"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_document_is_refused_in_one_line(case: str) -> None:
    text, said = BAD[case]
    with pytest.raises(ValueError, match=said) as refusal:
        parsed(text)
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 200


def test_a_document_is_read() -> None:
    assert parsed('{"a": [1, 2.5, null, true, "x"], "b": {"a": 1}}') == {
        "a": [1, 2.5, None, True, "x"],
        "b": {"a": 1},
    }


def test_many_keys_of_which_the_last_stands_twice_are_told_at_once() -> None:
    keys = [f'"{n}": 0' for n in range(200_000)]
    with pytest.raises(ValueError, match="'199999' is in it twice"):
        parsed("{" + ", ".join([*keys, keys[-1]]) + "}")
