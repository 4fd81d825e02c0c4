"""Drain world, as several test modules use it."""

import json
from collections.abc import Sequence
from typing import Any

from appliance.adapters.process import Completed
from appliance.engine.look.gather import PYTHON
from tests.support.engine_fakes import FakeHosts

Pod = dict[str, Any]


class World:
    """Slurm and a cluster behind their commands on the control host; pods and jobs end as they are told."""

    def __init__(self, hosts: FakeHosts) -> None:
        hosts.answer = self.answer
        self.hosts = hosts
        self.reasons: dict[str, str] = {}
        self.silent = ""  # "*" if slurmd does not answer.
        self.jobs: list[str] = []
        self.looks_until_jobs_end = 10**6
        self.node: dict[str, Any] | None = {"metadata": {"name": "gpu-1"}, "spec": {}}
        self.pods: list[Pod] = []
        self.budget: set[str] = set()
        self.refusal = "Error from server (TooManyRequests): Cannot evict pod"
        self.broken: dict[str, str] = {}
        self.units: dict[str, str] = {}
        self.evicted: list[str] = []
        self.graces: dict[str, int | None] = {}

    def answer(self, host: str, argv: Sequence[str]) -> Completed:
        words = list(argv[2:] if argv[0] == "timeout" else argv)
        code, out, err = self._answer(host, words)
        return Completed(tuple(argv), code, out, err)

    def _answer(self, host: str, words: list[str]) -> tuple[int, str, str]:
        if words[0] == "systemctl":
            state = self.units.get(words[-1], "inactive")
            return (0 if state == "active" else 3), f"{state}\n", ""
        if words[0] == PYTHON:
            return 0, '{"taken": true}', ""
        assert host == "head"
        if words[0] in self.broken:
            return 1, "", self.broken[words[0]]
        if words[0] == "kubectl":
            return self._kubectl(words[5:])
        if words[0] == "squeue":
            self.looks_until_jobs_end -= 1
            return 0, "\n".join(self.jobs if self.looks_until_jobs_end >= 0 else []), ""
        if words[0] == "scancel":
            self.jobs = [j for j in self.jobs if j.split()[0] not in words]
            return 0, "", ""
        if "show" in words:
            reason = self.reasons.get(words[-1], "")
            state = f"IDLE{self.silent}+DRAIN" if reason else f"IDLE{self.silent}"
            return 0, f"NodeName={words[-1]} State={state} Reason={reason} [root@now]\n", ""
        name = words[2].removeprefix("NodeName=")
        self.reasons[name] = words[4].removeprefix("Reason=") if len(words) > 4 else ""
        return 0, "", ""

    def _kubectl(self, words: list[str]) -> tuple[int, str, str]:
        if words[:2] == ["get", "node"]:
            lost = 'Error from server (NotFound): nodes "x" not found'
            return (0, json.dumps(self.node), "") if self.node else (1, "", lost)
        if words[:2] == ["get", "pods"]:
            return 0, json.dumps({"items": self.pods}), ""
        if words[:2] == ["get", "--raw"]:
            eviction = {"name": "pods/eviction", "group": "policy", "version": "v1beta1"}
            return 0, json.dumps({"resources": [eviction]}), ""
        if words[:2] == ["patch", "node"]:
            assert self.node
            merged(self.node, json.loads(words[-1]))
            return 0, "", ""
        assert words[:2] == ["create", "--raw"], words
        name = words[2].split("/")[-2]
        sent = json.loads(self.hosts.calls[-1][2])
        assert sent["apiVersion"] == "policy/v1beta1"
        assert sent["metadata"] == {"name": name, "namespace": "team"}
        if name in self.budget:
            return 1, "", self.refusal
        self.graces[name] = sent.get("deleteOptions", {}).get("gracePeriodSeconds")
        self.evicted.append(name)
        self.pods = [p for p in self.pods if p["metadata"]["name"] != name]
        return 0, "", ""

    @property
    def cordoned(self) -> bool:
        assert self.node
        return bool(self.node["spec"].get("unschedulable"))


def merged(into: dict[str, Any], patch: dict[str, Any]) -> None:
    """RFC 7386."""
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict):
            merged(into.setdefault(key, {}), value)
        else:
            into[key] = value
