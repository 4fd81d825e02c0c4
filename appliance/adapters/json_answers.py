"""JSON written by another machine: it is read, or refused in one line."""

import json
from collections import Counter
from typing import NoReturn

from appliance.text import quoted


def parsed(text: str) -> object:
    """The document. Raises ValueError with one short line for anything invalid or ambiguous.

    Refused are duplicate keys, NaN and infinity, numbers beyond the range of a float, integers of thousands of digits,
    and brackets nested deeper than Python reads, about a thousand.
    """
    try:
        return json.loads(
            text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f"{quoted(counts.most_common(1)[0][0])} is in it twice")
    return found


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{quoted(digits)} is out of range")
    return number
