"""Conformance cluster, as several test modules use it."""

from typing import ClassVar

from appliance.acceptance import access
from appliance.acceptance.capacity import GPU
from appliance.acceptance.sandbox import Name, Settings
from tests.support.kai_like import KaiLike

QUICK = Settings(patience=30.0, quiet=9.0)


SERVED = {"resource.k8s.io": ("v1", "v1beta1"), "autoscaling": ("v2",)}


class Cluster(KaiLike):
    """One that also says which groups it serves, and whose containers say what they see."""

    groups: ClassVar[dict[str, tuple[str, ...]]] = SERVED

    def served(self, group: str) -> tuple[str, ...]:
        return self.groups.get(group, ())

    def version(self) -> str:
        return "v1.35.4"

    def logs(self, pod: Name, container: str) -> str:
        found = self.pods[pod[2]]
        names = [c["name"] for c in found.spec["containers"]]
        asked = found.spec["containers"][names.index(container)]
        holds = GPU in asked["resources"]["limits"] or "second container" in self.faults
        by_variable = asked.get("env") == [{"name": access.VARIABLE, "value": "all"}]
        slots = sorted(found.slots) if holds else []
        if "all to all" in self.faults or (by_variable and "by variable" in self.faults):
            slots = list(range(8))
        if slots and "one for all" in self.faults:
            slots = [0]
        if "no devices" in self.faults:
            slots = []
        told = "" if "silent image" in self.faults else access.TOLD
        return "".join(f"/dev/nvidia{slot}\n" for slot in slots) + told + "\n"
