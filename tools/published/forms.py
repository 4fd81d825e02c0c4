"""Every document that verbs print with --json: which commands print it, and its JSON Schema for other programs."""

import json
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from appliance.config.json_schema import DIALECT
from appliance.lab.status import RackStatus
from appliance.models.events import Event
from appliance.models.notify import Notification
from appliance.models.plan import Plan
from appliance.models.profile import Profile
from appliance.models.queue_plan import QueuePlan, QueueState
from appliance.models.run import RunRecord
from appliance.report import documents


@dataclass(frozen=True)
class Printed:
    """One form of document. ``name``: of its schema, docs/schema/NAME.json; ``form``: a model, or the union of all events."""

    name: str
    title: str
    commands: tuple[str, ...]
    form: Any

    def schema(self) -> str:
        """JSON Schema (2020-12) of what is printed, as text with a final newline."""
        generated = _open(TypeAdapter(self.form).json_schema(mode="serialization"))
        told = {"$schema": DIALECT, **generated, "title": f"appliance {self.name}"}
        return json.dumps(told, indent=1, ensure_ascii=False) + "\n"


PRINTED = (
    Printed("health", "the results of all checks of the site", ("health",), documents.Health),
    Printed(
        "support-bundle",
        "what was read of each host, and what is missing",
        ("support-bundle",),
        documents.SupportBundle,
    ),
    Printed("history", "who changed the site, and when", ("history",), documents.History),
    Printed(
        "self-test",
        "results of the gates with falsified evidence: `validate --self-test`",
        ("validate",),
        documents.SelfTest,
    ),
    Printed("waivers", "waivers of a site", ("waive",), documents.Waivers),
    Printed("machines", "inventories that BMCs report", ("discover",), documents.Machines),
    Printed(
        "bios",
        "BIOS settings, compared with the profile's",
        ("bios apply", "bios status"),
        documents.BiosSettings,
    ),
    Printed("plan", "what a deployment would do", ("plan",), Plan),
    Printed(
        "events",
        "events as they happen, one object a line",
        ("deploy", "etcd abandon", "etcd repair", "backup restore", "etcd restore", "node assign"),
        Event,
    ),
    Printed(
        "run",
        "the record of a run; of trials, and of measurements without a site, the forms below",
        ("accept", "report", "validate", "validate gpt3-logs"),
        RunRecord,
    ),
    Printed(
        "trial",
        "results of a trial on a cluster",
        ("validate scheduler", "validate workloads", "validate conformance"),
        documents.Trial,
    ),
    Printed(
        "training-logs",
        "results of logs without a site",
        ("validate gpt3-logs",),
        documents.TrainingLogs,
    ),
    Printed(
        "measurements",
        "measurements of this machine with `--here`, or of a file",
        ("validate model-load", "validate serving", "validate serving-results"),
        documents.Measurements,
    ),
    Printed(
        "published-tables",
        "tables of the papers with `--table`",
        ("validate gpt3-logs", "validate serving-results"),
        documents.PublishedTables,
    ),
    Printed(
        "foreign-audit",
        "an audit by another program: `validate --foreign FILE`",
        ("validate",),
        documents.ForeignAudit,
    ),
    Printed("fabric", "ports, switches and cables", ("fabric show",), documents.Fabric),
    Printed("nearness", "the distance between hosts", ("fabric topology",), documents.Nearness),
    Printed("mig", "how GPUs are divided", ("mig show", "mig plan"), documents.Mig),
    Printed(
        "node-owners", "the scheduler that owns each GPU host", ("node show",), documents.NodeOwners
    ),
    Printed(
        "package-updates",
        "what an update of packages would change",
        ("update plan",),
        documents.PackageUpdates,
    ),
    Printed(
        "node-conditions",
        "node conditions that Kubernetes received for its GPU hosts",
        ("node conditions",),
        documents.NodeConditions,
    ),
    Printed("queues", "the site's queues", ("queue show",), documents.Queues),
    Printed("queue-state", "GPUs of each queue, and pods that wait", ("queue status",), QueueState),
    Printed(
        "queue-plan", "changes of the cluster's queues", ("queue plan", "queue apply"), QueuePlan
    ),
    Printed("images", "images that run in the cluster", ("images show",), documents.Images),
    Printed(
        "provisioning",
        "machines on which an operating system was installed",
        ("provision install",),
        documents.Provisioning,
    ),
    Printed("images-locked", "accepted images", ("images lock",), documents.ImagesLocked),
    Printed("backups", "backups of the cluster's state", ("etcd list",), documents.Backups),
    Printed(
        "backup-written", "the backup that was written", ("etcd save",), documents.BackupWritten
    ),
    Printed("saved-backups", "backups on the target", ("backup list",), documents.SavedBackups),
    Printed(
        "created-backups",
        "the backups that were written",
        ("backup create",),
        documents.CreatedBackups,
    ),
    Printed(
        "verified-backup",
        "a backup that was read back",
        ("backup verify",),
        documents.VerifiedBackup,
    ),
    Printed("kubeconfig", "a file for kubectl", ("kubeconfig",), documents.Kubeconfig),
    Printed("profile", "a hardware class; the schema of its file", ("profile show",), Profile),
    Printed("rack", "a virtual rack", ("lab up", "lab status"), RackStatus),
    Printed(
        "rehearsal",
        "a change as rehearsed on a virtual rack",
        ("rehearse",),
        documents.Rehearsal,
    ),
    Printed(
        "notification", "sent, not printed: an event for the site's receiver", (), Notification
    ),
)


def table() -> str:
    """The documents as a Markdown table."""
    lines = ["| command | prints | schema |", "|---|---|---|"]
    for one in PRINTED:
        commands = ", ".join(f"`appliance {command}`" for command in one.commands)
        commands = commands or "[section `notify`](interfaces.md#webhook)"
        lines.append(f"| {commands} | {one.title} | [{one.name}.json](schema/{one.name}.json) |")
    return "\n".join(lines)


def schemas() -> dict[str, str]:
    """Schemas by name; a profile's is that of its file (appliance/config/schema.py)."""
    return {one.name: one.schema() for one in PRINTED if one.form is not Profile}


def _open(node: Any) -> Any:
    """A schema that takes fields of later releases: readers pass over what they do not know."""
    if isinstance(node, dict):
        closed = {"additionalProperties"} if node.get("additionalProperties") is False else set()
        return {key: _open(value) for key, value in node.items() if key not in closed}
    return [_open(item) for item in node] if isinstance(node, list) else node
