"""The doors out: each library and program has one module that knows it."""

import sys

# paramiko reads invoke, and with it asyncio and a second YAML, for "Match exec" of ssh's own configuration. Nothing here
# reads that file, and invoke is a third of what paramiko costs to read.
sys.modules.setdefault("invoke", None)  # type: ignore[arg-type]  # None is how Python marks what may not be imported
