"""Signing keys of third parties: accepted only by their fingerprint."""

import tempfile
from itertools import pairwise
from pathlib import Path

from appliance.adapters.process import run
from appliance.airgap.download import HELPER, OPTIONS, reason
from appliance.errors import ApplianceError

KEY_SECONDS = 120.0


def fetched(uri: str, fingerprint: str, folder: Path) -> Path:
    """Downloads a key. Raises ApplianceError for any key but the one named."""
    target = folder / f"{fingerprint}.asc"
    argv = (HELPER, *OPTIONS, "download-file", uri, str(target))
    done = run(argv, timeout=KEY_SECONDS, check=False, env={"LC_ALL": "C"})
    if done.returncode:
        raise ApplianceError(
            f"the signing key {uri} cannot be fetched: {reason(done.stderr, uri)}",
            "check network and mirror in section repositories of site.yml",
        )
    found = _fingerprints(target)
    if found != [fingerprint.upper()]:
        raise ApplianceError(
            f"{uri} is not the key {fingerprint}: it contains {', '.join(found) or 'no key'}",
            "ask whose repository this is before you change its fingerprint in section repositories",
        )
    return target


def _fingerprints(file: Path) -> list[str]:
    """Of the primary keys in a file."""
    with tempfile.TemporaryDirectory() as home:
        argv = ("gpg", "--homedir", home, "--batch", "--with-colons", "--show-keys", str(file))
        lines = run(argv, check=False, hint="install gpg here").stdout.splitlines()
    return [
        after.split(":")[9]
        for line, after in pairwise(lines)
        if line.startswith("pub:") and after.startswith("fpr:")
    ]
