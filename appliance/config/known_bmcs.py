"""Pinned certificates of BMCs: known_bmcs in the site's folder, one line each, like known_hosts."""

import re
from collections.abc import Mapping
from pathlib import Path

from appliance.config.bounded_files import TooLarge, read_bytes
from appliance.config.finding import Finding, InvalidConfig
from appliance.models.site import Bmc
from appliance.ownership import write_anew

FILE = "known_bmcs"
LINE = re.compile(r"(?P<name>[0-9.]+:[0-9]+) SHA256:(?P<fingerprint>[0-9a-f]{64})")
LARGEST = 4_000_000
"""Bytes: 10,000 hosts need a tenth of it."""


def name_of(bmc: Bmc) -> str:
    """The name of a BMC in that file."""
    return f"{bmc.address}:{bmc.port}"


def read(folder: Path) -> dict[str, str]:
    """Fingerprints (SHA-256, hex) by name; none if there is no file. Raises InvalidConfig, naming the line."""
    file = folder / FILE
    try:
        lines = read_bytes(file, LARGEST).decode("ascii").splitlines()
    except FileNotFoundError:
        return {}
    except (TooLarge, UnicodeDecodeError, OSError) as error:
        why = getattr(error, "strerror", None) or "it is not a list of fingerprints"
        raise InvalidConfig([_finding(file, 0, f"cannot be read ({why})")]) from None
    pinned: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = LINE.fullmatch(line.strip())
        if found is None:
            raise InvalidConfig([_finding(file, number, "contains no fingerprint")])
        if pinned.setdefault(found["name"], found["fingerprint"]) != found["fingerprint"]:
            raise InvalidConfig([_finding(file, number, f"pins {found['name']} a second time")])
    return pinned


def write(folder: Path, pinned: Mapping[str, str]) -> None:
    """Replaces all pinned fingerprints with these."""
    file = folder / FILE
    lines = (f"{name} SHA256:{fingerprint}\n" for name, fingerprint in sorted(pinned.items()))
    write_anew(file, "".join(lines))


def _finding(file: Path, line: int, message: str) -> Finding:
    remedy = "fix the line, or move the file away and pin again: appliance trust --bmc"
    return Finding(file, line, FILE, message, remedy)
