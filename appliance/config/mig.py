"""MIG layouts as people write them: a name, or instances with their number."""

import re
from collections import Counter

from appliance.config.tables import mig_table
from appliance.errors import ConfigError
from appliance.models.mig import Geometry

PART = re.compile(r"(?:(?P<count>[1-9]\d?)\s*[x*]\s*)?(?P<profile>\d+g\.\d+gb(?:\+[a-z]+)*)")


def geometry_of(model: str) -> Geometry:
    """How GPUs of this product are cut. Raises ConfigError for one whose placements are not known."""
    found = mig_table().of(model)
    if found is None:
        known = ", ".join(m for g in mig_table().geometries for m in g.models)
        raise ConfigError(f"MIG placements of {model} are not known", f"known are {known}")
    return found


def parse(text: str, geometry: Geometry) -> dict[str, int]:
    """``all-balanced``, or ``3g.40gb, 2 x 1g.10gb``: instances of one GPU. Raises ConfigError if it cannot be made."""
    name = text.strip()
    if name in geometry.layouts:
        return dict(geometry.layouts[name])
    layout: Counter[str] = Counter()
    for part in name.split(","):
        found = PART.fullmatch(part.strip())
        if found is None:
            names = ", ".join(geometry.layouts)
            raise ConfigError(
                f'"{name}" is no MIG layout', f"write 3g.40gb, 2 x 1g.10gb, or one of {names}"
            )
        layout[found["profile"]] += int(found["count"] or 1)
    if why := geometry.refusal(layout):
        raise ConfigError(
            f"MIG layout {name} cannot be made: {why}", "take one of the legal layouts"
        )
    return dict(layout)
