"""Reads a request from standard input and prints the facts of this host, both JSON."""

from __future__ import annotations

import json
import os
import sys


def answer(request: bytes, root: str = "") -> dict[str, object]:
    """Return the facts, or ``{"error": one line}`` if the request cannot be answered."""
    from appliance.probe.ask import Ask, Refused
    from appliance.probe.collect import document

    try:
        return document(Ask(json.loads(request or b"{}"), root))
    except ValueError as error:
        return {"error": f"the request is not JSON: {error}"}
    except Refused as error:
        return {"error": str(error)}


def main(request: bytes) -> None:
    """Print the answer and exit at once, even if a thread still waits for a dead server."""
    said = answer(request)
    text = json.dumps(said, ensure_ascii=False, separators=(",", ":")) + "\n"
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
    if "error" in said:
        os.write(2, f"{said['error']}\n".encode("utf-8", "replace"))
    for stream in (0, 1, 2):
        os.close(stream)
    os._exit(2 if "error" in said else 0)


if __name__ == "__main__":
    main(sys.stdin.buffer.read())
