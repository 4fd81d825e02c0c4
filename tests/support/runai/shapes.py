"""Bodies that the stand-in of Run:ai's REST API accepts: fields, types and limits of its published schema.

Sources: the 3.0 pages of docs.nvidia.com/run-ai/self-hosted/v3.0/reference/rest-api, and the OpenAPI of product 2.24 where a 3.0
page was not available. Limits that no page gives are marked "assumed". Standard library only.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Check = Callable[[Any, str], None]

KUBERNETES_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SERVICE_ACCOUNT = r"[a-z][-_a-z0-9]*[a-z0-9]"
EMAIL = r"[^@\s]+@[^@\s]+\.[^@\s]+"
DURATION = r"(\d+[wdhms])+"
RANKS = ("VeryLow", "Low", "MediumLow", "Medium", "MediumHigh", "High", "VeryHigh")
"""Assumed, except High, Medium and MediumLow (the default): clients must read /api/v1/org-unit/ranks."""
UNITS = ("Mib", "MB", "GB")
PLACEMENTS = ("spread", "binpack")
SUBJECTS = ("user", "group", "service-account", "app")
SCOPES = ("system", "tenant", "cluster", "department", "project")


class Refused(Exception):
    """An answer other than success: its status, and the message of its body."""

    def __init__(self, status: int, message: str, details: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.details = details


def invalid(where: str, why: str) -> Refused:
    """A body that the schema does not allow."""
    return Refused(400, f"{where or 'body'}: {why}")


def text(pattern: str = "", most: int = 0) -> Check:
    """A string of this form and length."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, str):
            raise invalid(where, "must be a string")
        if most and not 1 <= len(value) <= most:
            raise invalid(where, f"must have 1 to {most} characters")
        if pattern and not re.fullmatch(pattern, value):
            raise invalid(where, f"must match {pattern}")

    return check


def number(least: float = 0, whole: bool = False) -> Check:
    """A number from ``least`` on; a truth value is none."""

    def check(value: Any, where: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            raise invalid(where, "must be an integer" if whole else "must be a number")
        if value < least:
            raise invalid(where, f"must be at least {least:g}")

    return check


def one_of(*known: str) -> Check:
    """One of these words."""

    def check(value: Any, where: str) -> None:
        if value not in known:
            raise invalid(where, f"must be one of {', '.join(known)}")

    return check


def flag(value: Any, where: str) -> None:
    """True or false."""
    if not isinstance(value, bool):
        raise invalid(where, "must be a boolean")


def listing(check: Check, least: int = 0) -> Check:
    """A list of at least this many."""

    def checked(value: Any, where: str) -> None:
        if not isinstance(value, list) or len(value) < least:
            raise invalid(where, "must be a list" + (f" of at least {least}" if least else ""))
        for i, item in enumerate(value):
            check(item, f"{where}[{i}]")

    return checked


def nullable(check: Check) -> Check:
    """The same, or null."""

    def checked(value: Any, where: str) -> None:
        if value is not None:
            check(value, where)

    return checked


def anything(value: Any, where: str) -> None:
    """A field whose content the stand-in does not judge."""


@dataclass(frozen=True)
class Shape:
    """An object with these fields and no other."""

    fields: Mapping[str, Check]
    required: frozenset[str] = field(default_factory=frozenset)

    def __call__(self, value: Any, where: str = "") -> None:
        """Raises Refused."""
        if not isinstance(value, dict):
            raise invalid(where, "must be an object")
        for name in value:
            if name not in self.fields:
                raise invalid(where, f"unknown field {name}")
        for name in sorted(self.required - set(value)):
            raise invalid(where, f"{name} is required")
        for name, item in value.items():
            self.fields[name](item, f"{where}.{name}" if where else name)


def shape(required: str = "", **fields: Check) -> Shape:
    """A shape; ``required``: names divided by blanks."""
    return Shape(fields, frozenset(required.split()))


RESOURCE: dict[str, Check] = {
    "deserved": nullable(number()),
    "limit": nullable(number()),
    "overQuotaWeight": nullable(number()),
}
"""Null as the limit: none."""


def resources(release: str) -> Shape:
    """One entry per node pool; from 3.0 on with ``rank``, before with ``priority``."""
    memory = {**RESOURCE, "units": one_of(*UNITS)}
    fields: dict[str, Check] = {
        "nodePool": nullable(shape("id", id=text(most=253), name=text())),
        "gpu": nullable(Shape(RESOURCE)),
        "cpu": nullable(Shape(RESOURCE)),
        "memory": nullable(Shape(memory, frozenset({"units"}))),
    }
    if release == "3.0":
        return Shape({**fields, "rank": nullable(one_of(*RANKS))})
    return Shape({**fields, "priority": nullable(text())})


LIMITS = (
    "interactiveJobTimeLimitSeconds",
    "interactiveJobMaxIdleDurationSeconds",
    "interactiveJobPreemptIdleDurationSeconds",
    "trainingJobTimeLimitSeconds",
    "trainingJobMaxIdleDurationSeconds",
)
_RULES = Shape(dict.fromkeys(LIMITS, nullable(number(1, whole=True))))


def scheduling_rules(value: Any, where: str) -> None:
    """Limits of at least a second, and an idle limit below its time limit."""
    _RULES(value, where)
    for kind in ("interactive", "training"):
        idle = value.get(f"{kind}JobMaxIdleDurationSeconds")
        limit = value.get(f"{kind}JobTimeLimitSeconds")
        if idle and limit and idle >= limit:
            raise invalid(where, f"{kind}: the idle limit must be less than the time limit")


PLACEMENT = shape(cpu=one_of(*PLACEMENTS), gpu=one_of(*PLACEMENTS))
SCHEDULING = shape(
    placementStrategy=nullable(PLACEMENT), minGuaranteedRuntime=nullable(text(DURATION))
)
NODE_TYPES = shape(
    training=nullable(listing(text())), workspace=nullable(listing(text())), names=anything
)


def node_pool(release: str, new: bool) -> Shape:
    """A node pool to create, or its change."""
    fields: dict[str, Check] = {
        "labelKey": text(most=253),
        "labelValue": text(most=63),
        "schedulingConfiguration": nullable(SCHEDULING),
        "networkTopologyId": nullable(text()),
        "gpuNetworkAccelerationLabelKey": nullable(text()),
        "gpuNetworkAccelerationDetection": nullable(one_of("Auto", "Use", "DontUse")),
    }
    if release != "3.0":
        fields["placementStrategy"] = nullable(PLACEMENT)
        fields["overProvisioningRatio"] = nullable(number(1, whole=True))
        fields["gpuResourceOptimization"] = nullable(anything)
    if not new:
        return Shape(fields)
    fields |= {"name": text(KUBERNETES_NAME, 63), "clusterId": text()}
    return Shape(fields, frozenset({"name", "labelKey", "labelValue", "clusterId"}))


def department(release: str, new: bool) -> Shape:
    """A department to create, or its PUT."""
    fields: dict[str, Check] = {
        "description": nullable(text()),
        "schedulingRules": nullable(scheduling_rules),
        "defaultNodePools": nullable(listing(text())),
        "nodeTypes": nullable(NODE_TYPES),
        "resources": listing(resources(release)),
    }
    if not new:
        return Shape(fields, frozenset({"resources"}))
    fields |= {"name": text(KUBERNETES_NAME, 63), "clusterId": text()}
    return Shape(fields, frozenset({"name", "clusterId", "resources"}))


def project(release: str, new: bool) -> Shape:
    """A project to create, or its PUT."""
    base = department(release, new)
    fields: dict[str, Check] = {**base.fields, "enforceRunaiScheduler": flag}
    if new:
        namespace = nullable(text(KUBERNETES_NAME, 63))
        fields |= {"parentId": nullable(text()), "requestedNamespace": namespace}
    return Shape(fields, base.required)


CLUSTER = shape("name", name=text(most=63), domain=nullable(text()), version=nullable(text()))
CLUSTER_NAME = shape("name", name=text(most=63))
SERVICE_ACCOUNT_NEW = shape("name", name=text(SERVICE_ACCOUNT))
SERVICE_ACCOUNT_CHANGE = shape("enabled", enabled=flag)
RULE = shape(
    "subjectId subjectType roleId scopeId scopeType",
    subjectId=text(),
    subjectType=one_of(*SUBJECTS),
    roleId=number(whole=True),
    scopeId=text(),
    scopeType=one_of(*SCOPES),
    clusterId=nullable(text()),
)
RULES_DELETED = shape(
    "ids action", ids=listing(text(), 1), action=one_of("delete", "validate_delete")
)
TOPOLOGY = shape(
    "name clusterId levels",
    name=text(most=63),
    clusterId=text(),
    levels=listing(text(most=63), 1),
)
POLICY = shape(
    "meta policy",
    meta=shape(
        "scope",
        scope=one_of(*SCOPES),
        name=text(),
        projectId=anything,
        departmentId=text(),
        clusterId=text(),
    ),
    policy=shape(defaults=anything, rules=anything, imposedAssets=anything),
)


def user(release: str) -> Shape:
    """A user to create; the names are of 3.0."""
    fields: dict[str, Check] = {"email": text(EMAIL), "resetPassword": flag, "notify": flag}
    if release == "3.0":
        fields |= {"firstName": nullable(text()), "lastName": nullable(text())}
    return Shape(fields, frozenset({"email"}))
