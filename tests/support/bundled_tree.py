"""A host as a folder: programs that print what a test plants, logs, configuration and receipts."""

import gzip
import json
import os
from collections.abc import Mapping
from pathlib import Path

SOURCES = (
    "program journalctl",
    "program dmesg",
    "program scontrol",
    "program sacctmgr",
    "program nft",
    "file var/log/slurm/slurmd.log",
    "file var/log/munge/munged.log",
    "file var/log/opensm.0x1.log",
    "file etc/slurm/slurm.conf",
    "file var/lib/appliance/receipts/slurm.json",
    "report nvidia-bug-report.sh",
)
"""What is read of a host: kind and name."""


def plant(root: Path, texts: Mapping[str, str]) -> None:
    """A host whose sources hold these texts."""
    for source in SOURCES:
        kind, _, name = source.partition(" ")
        text = texts.get(source, "")
        if kind == "file":
            _file(root / name, text)
        else:
            _program(root, name, text, is_report=kind == "report")
    (root / "run").mkdir(exist_ok=True)


def _file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        names = ("/etc/slurm/slurm.conf", "/etc/slurm/slurmdbd.conf")
        resources = [{"kind": "file", "name": name} for name in names]
        words = dict.fromkeys(("fingerprint", "written", "run", "appliance"), "x")
        whole = {"version": 1, "stage": "slurm", **words, "resources": resources, "note": text}
        text = json.dumps(whole)
    path.write_text(text)


def _program(root: Path, name: str, text: str, *, is_report: bool) -> None:
    content = root / "planted" / name
    content.parent.mkdir(parents=True, exist_ok=True)
    content.write_bytes(gzip.compress(text.encode()) if is_report else text.encode())
    program = root / "usr/bin" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    does = f'cp {content} "$3.gz"' if is_report else f"cat {content}"
    program.write_text(f"#!/bin/sh\n{does}\n")
    os.chmod(program, 0o755)  # noqa: PTH101
