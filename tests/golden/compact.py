"""JSON for readers: what fits on a line stands on one, so that a difference shows a whole thing."""

import json

WIDTH = 120


def compact(value: object, before: str = "", width: int = WIDTH, *, ordered: bool = True) -> str:
    """``value`` as JSON without a final newline, with its keys ``ordered`` or as they come.

    A list or mapping that does not fit into ``width`` behind ``before``, which is not repeated, has its items on lines
    of their own, each one blank further in.
    """
    whole = json.dumps(value, ensure_ascii=False, sort_keys=ordered, default=str)
    if len(before) + len(whole) < width or not isinstance(value, dict | list | tuple):
        return whole
    inner = " " * (len(before) - len(before.lstrip()) + 1)
    if isinstance(value, dict):
        items = [
            f"{start}{compact(value[key], start, width, ordered=ordered)}"
            for key in (sorted(value) if ordered else value)
            for start in [f"{inner}{json.dumps(str(key), ensure_ascii=False)}: "]
        ]
        first, last = "{}"
    else:
        items = [f"{inner}{compact(item, inner, width, ordered=ordered)}" for item in value]
        first, last = "[]"
    return f"{first}\n" + ",\n".join(items) + f"\n{inner[1:]}{last}"
