"""Adapters: each external library and program is used by one module only."""

import sys

# paramiko imports invoke, and with it asyncio and a second YAML, for "Match exec" of ssh's configuration. Nothing here
# reads that file, and invoke is a third of paramiko's import time.
sys.modules.setdefault("invoke", None)  # type: ignore[arg-type]  # None is how Python marks what may not be imported
