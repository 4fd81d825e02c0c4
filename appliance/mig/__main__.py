"""Reads a request from standard input and prints the result, both in JSON."""

from __future__ import annotations

import json
import sys

from appliance.mig.command import answer


def main(request: bytes) -> None:
    """Print the answer."""
    sys.stdout.write(json.dumps(answer(request)) + "\n")


if __name__ == "__main__":
    main(sys.stdin.buffer.read())
