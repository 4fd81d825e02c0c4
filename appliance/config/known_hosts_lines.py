"""Lines of known_hosts: the hosts of each line, and their replacement (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT)."""

from collections.abc import Mapping
from pathlib import Path

from appliance.ownership import write_anew


def replace(file: Path, lines: Mapping[str, str]) -> None:
    """Writes lines of known_hosts, by name, in place of all lines the file has for these names."""
    found = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
    kept = [line for line in found if not lines.keys() & set(names(line))]
    write_anew(file, "".join([*kept, *lines.values()]))


def names(line: str) -> list[str]:
    """The hosts of a line of known_hosts; sshd(8): names are separated by commas."""
    words = line.split()
    return words[0].split(",") if len(words) >= 3 and not line.startswith("#") else []
