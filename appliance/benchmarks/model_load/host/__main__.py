"""Reads a request from the control machine, measures, and prints one JSON document."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import time
from importlib import metadata
from typing import Any

from appliance.benchmarks.model_load.host.loaders import PACKAGES, S3_PACKAGES
from appliance.benchmarks.model_load.host.place import Place


def main(given: bytes) -> None:
    """``given``: the request as JSON. Keys of an S3 server come in it, so they are in no argument list."""
    request = json.loads(given)
    os.environ.update(request["environment"])
    began = time.gmtime()
    ends = time.monotonic() + request["deadline"]
    packages = _packages()
    places = [Place(at, request, packages, ends).measure() for at in request["places"]]
    document = {
        "version": 1,
        "host": platform.node(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "processors": len(os.sched_getaffinity(0)),
        "packages": packages,
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", began),
        "places": places,
    }
    sys.stdout.write(json.dumps(document) + "\n")


def _packages() -> dict[str, Any]:
    """By name, the version and the SHA-256 of RECORD, the list of a package's files and their digests."""
    found = {}
    for name in sorted({*S3_PACKAGES, *(p for names in PACKAGES.values() for p in names)}):
        try:
            package = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        record = (package.read_text("RECORD") or "").encode()
        found[name] = {"version": package.version, "record": hashlib.sha256(record).hexdigest()}
    return found
