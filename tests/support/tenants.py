"""Tenants, as several test modules use it."""

import re

from appliance.adapters.kubernetes import Resource

REFUSED = re.compile(
    r"ValidatingAdmissionPolicy '([a-z-]+)' with binding '([a-z-]+)' denied request"
)
"""How the server names who refused; the name is ours."""


REPORTS = frozenset((403, 422))


POLICIES = "admissionregistration.k8s.io/v1"


def priority(name: str, value: int) -> Resource:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": name}, "value": value}
