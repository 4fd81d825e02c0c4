"""Receipts: what a finished stage leaves on its host, so that the next run can skip it."""

import json
import shlex
from collections.abc import Iterable
from datetime import UTC, datetime

from appliance import __version__
from appliance.adapters.remote import Remote
from appliance.engine.plan.prepare import Prepared
from appliance.errors import CommandFailed
from appliance.models.facts import HostFacts

FOLDER = "/var/lib/appliance/receipts"


def write_receipt(
    remote: Remote, run: str, stage: str, prepared: Prepared, facts: HostFacts
) -> None:
    """Write the state of the stage's resources, as the probe just read it, readable by root only."""
    document = {
        "version": 1,
        "stage": stage,
        "fingerprint": prepared.fingerprint,
        "inputs": prepared.inputs,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "run": run,
        "appliance": __version__,
        "resources": list(facts.resources),
    }
    target = shlex.quote(f"{FOLDER}/{stage}.json")
    script = f"umask 077 && mkdir -p {FOLDER} && cat > {target}.new && sync {target}.new && mv {target}.new {target}"
    done = remote.run(facts.host, ["sh", "-c", script], input=json.dumps(document).encode())
    if done.returncode:
        raise CommandFailed(f"the receipt of {stage} cannot be written: {done.stderr.strip()}")


def remove_receipts(remote: Remote, host: str, stages: Iterable[str]) -> None:
    """Remove the receipts of stages that are no longer valid."""
    remote.run(host, ["rm", "-f", *(f"{FOLDER}/{stage}.json" for stage in stages)])


def state_request(resources: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return the probe's request for the state of these (kind, name) pairs."""
    return [{"kind": kind, "name": name} for kind, name in resources]
