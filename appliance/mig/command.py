"""The command line of the program on a host, and the interface for the control host."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from appliance.mig import demand, host, serve
from appliance.mig.layout import DECLARED, Declared, Refused, parse
from appliance.probe import files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

BAD, REFUSED = 1, 2
EXAMPLES = """\
examples:
  appliance-mig show             what the GPUs are divided into, with UUIDs and processes
  appliance-mig plan             what apply would do, GPU by GPU
  appliance-mig apply            make the layout of /etc/appliance/mig.json
  appliance-mig disable          make all GPUs whole, and divide them at boot no more
  appliance-mig serve            divide GPUs for pods that wait, until it is ended; what appliance-mig-demand.service starts
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it: 0 all as declared, 1 some GPU is not, 2 the request is invalid."""
    parser = argparse.ArgumentParser(
        "appliance-mig",
        description="Divides the GPUs of this host (MIG) as declared.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", choices=("show", "plan", "apply", "disable", "serve"))
    parser.add_argument("--json", action="store_true", help="the answer as JSON")
    parser.add_argument("--file", default=DECLARED, help="declared layout (default: %(default)s)")
    asked = parser.parse_args(arguments)
    try:
        if asked.verb == "serve":
            serve.serve(demand.parse(_text(demand.FILE)))
            return 0
        declared = None if asked.verb in {"show", "disable"} else _declared(asked.file)
        results = carry_out(asked.verb, declared)
    except Refused as error:
        sys.stderr.write(f"appliance-mig: {error}\n")
        return REFUSED
    sys.stdout.write(json.dumps(results, indent=1) + "\n" if asked.json else text(results))
    return 0 if host.good([r for r in results if "state" in r]) else BAD


def answer(request: bytes) -> dict[str, Any]:
    """Run the control host's request ``{"verb", "declared"}``: returns ``gpus``, or ``error``."""
    try:
        asked = json.loads(request)
        declared = parse(json.dumps(asked["declared"])) if asked.get("declared") else None
        return {"gpus": carry_out(asked["verb"], declared)}
    except Refused as error:
        return {"error": str(error)}


def carry_out(verb: str, declared: Declared | None) -> list[dict[str, Any]]:
    """Run one of show, plan, apply and disable. Raises Refused."""
    if verb == "disable":
        with host.alone(), host.driver() as library:
            return host.disable(library)
    if declared is None:
        with host.driver() as library:
            return host.show(library)
    if verb == "plan":
        with host.driver() as library:
            return host.plan(library, declared)
    with host.alone(), host.driver() as library:
        return host.apply(library, declared)


def text(results: list[dict[str, Any]]) -> str:
    """Return a line per GPU, and one per instance if they are shown."""
    lines = []
    for one in results:
        told = one.get("error") or one.get("why") or "; ".join(one.get("steps", ()))
        state = f"  {one['state']}" if "state" in one else ""
        pending = "  (another mode is pending until a reset)" if one.get("pending") else ""
        lines.append(
            f"GPU {one['gpu']}: {one.get('layout', '?')}{pending}{state}"
            + (f": {told}" if told else "")
        )
        for instance in one.get("instances", ()):
            devices = ", ".join(instance["devices"]) or "no compute instance"
            lines.append(f"  {instance['profile']:<12} at {instance['start']}  {devices}")
        if "state" not in one:
            lines += (
                [f"  used by {p['pid']} {p['name']} ({p['user']})" for p in one["processes"]]
                if "processes" in one
                else []
            )
    return "".join(line + "\n" for line in lines)


def _declared(file: str) -> Declared:
    return parse(_text(file))


def _text(file: str) -> str:
    try:
        return files.read(file)
    except OSError as error:
        raise Refused(f"{file}: {error.strerror}") from None
