"""The file of accepted images, next to site.yml: read strictly, written atomically."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from appliance.config import document
from appliance.config.finding import Finding, InvalidConfig
from appliance.config.schema import check
from appliance.errors import ConfigError
from appliance.models.images import ImageLock
from appliance.ownership import write_anew

NAME = "images.lock"
HEAD = """\
# Images that were accepted for this site's cluster, as running when appliance images lock wrote this file.
# digest: from a registry; id: of an image imported from an archive.
"""


def read(folder: Path) -> tuple[ImageLock | None, tuple[Finding, ...]]:
    """The lock of a site, None if it has none, and what is wrong with it."""
    file = folder / NAME
    if not os.path.lexists(file):
        return None, ()
    try:
        checked = check(document.read(file), ImageLock)
    except InvalidConfig as error:
        anew = "remove it, then write it again: appliance images lock"
        return None, tuple(replace(f, remedy=anew) if not f.line else f for f in error.findings)
    return checked.model, checked.findings


def text(images: Mapping[str, str]) -> str:
    """The file for these images; the same images always give the same text."""
    lines = [f"  {json.dumps(image)}: {identity}\n" for image, identity in sorted(images.items())]
    return f"{HEAD}version: 1\nimages:{'' if lines else ' {}'}\n{''.join(lines)}"


def write(folder: Path, images: Mapping[str, str]) -> Path:
    """Writes the lock of a site. Raises ConfigError if its folder cannot be written."""
    file = folder / NAME
    try:
        write_anew(file, text(images))
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written ({error.strerror})", "make the site's folder writable"
        ) from None
    return file
