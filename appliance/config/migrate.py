"""Migrates a site file of version 1 to version 2, which names Slurm; every other line stays unchanged."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from appliance.config.document import compose
from appliance.config.site_edit import Load, text_of, tried
from appliance.errors import ConfigError

NEWEST = 2


def migrated(text: str, file: Path) -> str:
    """The text in the newest version; unchanged if it has that version already. Raises ConfigError."""
    root: Any = compose(text, file)
    keys: dict[str, Any] = {key.value: value for key, value in root.value}
    version = keys["version"]
    if version.value == str(NEWEST):
        return text
    if root.flow_style:
        raise ConfigError(
            f"{file} is a YAML mapping in braces, which cannot be migrated",
            f"write version: {NEWEST} and slurm: {{}} yourself",
        )
    begin, end = version.start_mark.index, version.end_mark.index
    new = f"{text[:begin]}{NEWEST}{text[end:]}"
    if "slurm" in keys:
        return new
    newline = "\r\n" if "\r\n" in text else "\n"
    return f"{new.rstrip()}{newline}{newline}slurm: {{}}{newline}"


@contextmanager
def migration(file: Path, load: Load) -> Iterator[tuple[str, str, Path]]:
    """The current text, the text in the newest version, and a file next to the site's that holds the new text.

    Raises ConfigError if the new text would change the meaning of the site.
    """
    file = file.resolve()
    before = load(file)
    mark, text = text_of(file)
    new_text = migrated(text, file)
    with tried(file, mark + new_text.encode(), load) as (new, loaded):
        if loaded.site != before.site.model_copy(update={"version": NEWEST}):
            raise ConfigError(
                f"{file} cannot be rewritten without changing more than its version",
                f"write version: {NEWEST} yourself, and slurm: {{}} if the file has no section slurm",
            )
        yield text, new_text, new
