"""Keeps what ansible-core packs of a module, with its bytecode: packing takes 0.2 s of each module in each playbook.

ansible-core 2.19 packs a module with all it imports into the folder ansiballz_cache of its temporary folder
(executor/module_common.py), which ends with the playbook. Whose names do not begin as KEPT says are packed each time.
"""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from importlib.util import MAGIC_NUMBER
from io import BytesIO
from marshal import dumps as marshalled
from os import getpid
from pathlib import Path
from pickle import dumps, loads
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from ansible import constants
from ansible.plugins.callback import CallbackBase
from ansible.release import __version__

DOCUMENTATION = """
name: payloads
type: aggregate
short_description: Keeps packed modules for the next playbook
description:
  - Packed modules lie beside the modules, in C(__pycache__), with their digests.
  - A host with the Python of the control host runs their bytecode, another compiles their sources in each task.
  - Where that folder may not be written, modules are packed anew.
"""

KEPT = ("ansible.modules.", "ansible_collections.appliance.host.")
"""Modules that hang on nothing but the version of ansible-core and this collection."""
SUFFIX = ".payload"
DIGEST = 32
"""Bytes of a SHA-256, which stands before what it is of."""
UNCHECKED = MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
"""The head of bytecode that is not compared with its source (PEP 552); Python leaves that of another Python alone."""


def with_bytecode(packed: bytes) -> bytes:
    """Adds to the sources of a packed module what Python makes of them: hosts compile 5,000 lines in each task else."""
    module = loads(packed)
    archive = BytesIO(b64decode(module.zip_data))
    with ZipFile(archive, "a", ZIP_DEFLATED) as files:
        for name in [name for name in files.namelist() if name.endswith(".py")]:
            code = compile(files.read(name), name, "exec", dont_inherit=True)
            files.writestr(f"{name}c", UNCHECKED + marshalled(code))
    return dumps(replace(module, zip_data=b64encode(archive.getvalue())))


class Payloads:
    """Packed modules in ``folder``, as long as they are of these sources."""

    def __init__(self, folder: Path, plugins: Path) -> None:
        self._folder = folder
        made_by = sha256(f"{__version__} {sys.version}".encode())
        for source in sorted(plugins.glob("module*/**/*.py")):
            made_by.update(f"{source.name} {source.stat().st_size} ".encode())
            made_by.update(source.read_bytes())
        self._end = f".{made_by.hexdigest()[:16]}{SUFFIX}"

    def give(self, used: Path) -> None:
        """Lays what is kept where ansible-core looks for it; what is damaged goes, and is packed anew."""
        used.mkdir(parents=True, exist_ok=True)
        for kept in self._folder.glob(f"*{self._end}"):
            told = kept.read_bytes()
            if sha256(told[DIGEST:]).digest() == told[:DIGEST]:
                (used / kept.name.removesuffix(self._end)).write_bytes(told[DIGEST:])
            else:
                kept.unlink(missing_ok=True)

    def take(self, used: Path) -> None:
        """Keeps what was packed, each whole or not at all; what other sources left goes."""
        # What runs as root on every host, nobody else may write, whatever the umask.
        self._folder.mkdir(mode=0o755, exist_ok=True)
        for packed in used.iterdir():
            kept = self._folder / f"{packed.name}{self._end}"
            # Beside each lies its lock, and one that is being written, its part.
            whole = not packed.name.endswith((".lock", "-part"))
            if whole and packed.name.startswith(KEPT) and not kept.exists():
                content = with_bytecode(packed.read_bytes())
                new = self._folder / f"{packed.name}.{getpid()}"
                new.touch(mode=0o644)
                new.write_bytes(sha256(content).digest() + content)
                new.replace(kept)
        for old in self._folder.glob(f"*{SUFFIX}"):
            if not old.name.endswith(self._end):
                old.unlink(missing_ok=True)


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Gives before the first task, takes after the last."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "appliance.host.payloads"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        plugins = Path(__file__).resolve().parents[1]
        self._used = Path(constants.DEFAULT_LOCAL_TMP, "ansiballz_cache")
        self._payloads = Payloads(plugins / "modules/__pycache__", plugins)
        with suppress(OSError):
            self._payloads.give(self._used)

    def v2_playbook_on_stats(self, stats: object) -> None:
        """The end of a playbook."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                self._payloads.take(self._used)
