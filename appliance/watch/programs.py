"""The site's own programs in the folder of a scheduler: each must succeed; the first line of a failed one is the cause."""

from __future__ import annotations

import os

from appliance.probe import files
from appliance.probe.command import ended
from appliance.probe.lines import lines_of
from appliance.probe.problems import Unreadable
from appliance.watch.verdict import Cause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from appliance.watch.place import Place

SECONDS = 20.0


def causes(place: Place) -> Iterator[Cause]:
    """Yield a cause for each program that fails, or does not end, ordered by name."""
    for name in files.names(place.programs):
        path = f"{place.programs}/{name}"
        if not name.endswith(".sh") or not os.access(path, os.X_OK):
            continue
        try:
            status, out, err = ended([path], SECONDS)
        except Unreadable as error:
            yield Cause(place.check, str(error), name)
            continue
        if status:
            said = lines_of((out + err).strip())
            yield Cause(place.check, said[0][:120] if said else f"ended with {status}", name)
