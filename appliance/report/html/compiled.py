"""Stores compiled templates next to their sources, as Python stores bytecode: compiling takes longer than rendering."""

import os
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment, __version__
from jinja2.bccache import Bucket, BytecodeCache


class Compiled(BytecodeCache):
    """Writes to the cache if it may; an entry that is unreadable or of another source is compiled again.

    A compiled template depends on its source, the options of its environment, and the version of jinja2.
    """

    def __init__(self, folder: Path, env: Environment) -> None:
        self._folder = folder / "__pycache__"
        options = (env.autoescape, env.trim_blocks, env.lstrip_blocks)
        self._made_by = f"{__version__}{options}"

    def get_source_checksum(self, source: str) -> str:
        """Identify everything compiled, and the version that compiled it."""
        return sha256(f"{self._made_by}{source}".encode()).hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        """Load a compiled template if it is of this source."""
        try:
            with self._file(bucket).open("rb") as file:
                bucket.load_bytecode(file)
        except OSError:
            pass
        except Exception:  # noqa: BLE001 - a damaged file may fail in any way, and is only a cache
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Store it atomically if this user may write, and Python itself would."""
        if sys.dont_write_bytecode:
            return
        kept = self._file(bucket)
        with suppress(OSError):
            kept.parent.mkdir(exist_ok=True)
            new = kept.with_suffix(f".{os.getpid()}")
            new.write_bytes(bucket.bytecode_to_string())
            new.replace(kept)

    def _file(self, bucket: Bucket) -> Path:
        return self._folder / f"{bucket.key}.{sys.implementation.cache_tag}.jinja"
