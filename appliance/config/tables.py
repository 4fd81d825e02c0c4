"""Tables shipped with the program, from YAML to their model."""

from pathlib import Path
from typing import TypeVar

from appliance.config.document import read
from appliance.config.finding import InvalidConfig
from appliance.config.schema import check
from appliance.models.base import Model

M = TypeVar("M", bound=Model)


def load(file: Path, model: type[M]) -> M:
    """A file as its model. Raises InvalidConfig."""
    checked = check(read(file), model)
    if checked.model is None or checked.findings:
        raise InvalidConfig(checked.findings)
    return checked.model
