"""Files named on the command line."""

import os
import stat
from pathlib import Path
from typing import Any

import click

from appliance.errors import ConfigError


class InputFile(click.Path):
    """The path of a regular file. Raises ConfigError for a device, pipe or socket, which could be endless or block."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A missing file is reported by its reader."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        try:
            mode = path.stat().st_mode
        except (OSError, ValueError):
            return path
        if not stat.S_ISREG(mode):
            option = param.opts[0] if param else "the file"
            raise ConfigError(f"{option}: {path} is not a regular file", "name a regular file")
        return path


def write(file: Path, text: str) -> None:
    """Writes a text. Raises OSError, also for a pipe without a reader, where opening for writing would block."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    number = os.open(file, flags, 0o666)
    with os.fdopen(number, "w", encoding="utf-8") as written:
        os.set_blocking(number, True)
        written.write(text)
