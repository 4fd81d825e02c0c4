"""Observe facts, as several test modules use it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from appliance.alerts import ALERTS
from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult
from appliance.models.site import Site
from appliance.stages.observe import checks as observe
from tests.support.facts import facts_of
from tests.support.judging import said_by

HOSTS = ("head", "gpu-1", "gpu-2")


RULES = len(ALERTS)


UP = (*(("node", name, "up") for name in HOSTS), ("prometheus", "head", "up"))


ONCALL = {"name": "oncall", "webhook": {"env": "HOOK"}}


def site(receivers: Iterable[Mapping[str, object]] = ()) -> Site:
    hosts = [
        {"name": n, "roles": ["control" if n == "head" else "gpu"], "address": f"10.0.0.{i}"}
        for i, n in enumerate(HOSTS, 10)
    ]
    networks = {"management": {"cidr": "10.0.0.0/24"}}
    data = {"version": 1, "name": "lab", "networks": networks, "hosts": hosts}
    data["observe"] = {"receivers": list(receivers)}
    return Site.model_validate_json(json.dumps(data))


def facts(
    host: str,
    *,
    targets: Iterable[tuple[str, str, str]] | None = None,
    rules: int = RULES,
    waiting: int = 0,
    firing: tuple[str, ...] = (),
    unit: tuple[str, str] | None = ("active", "enabled"),
    error: str = "",
    told: tuple[str, ...] | None = None,
    sends: int = 1,
    silences: list[Mapping[str, Any]] | None = None,
) -> HostFacts:
    seen = None
    if targets is not None:
        listed = [
            {"job": j, "instance": i, "health": h, "error": "refused" if h == "down" else ""}
            for j, i, h in targets
        ]
        seen = {"targets": listed, "rules": rules, "waiting": waiting, "firing": firing}
        seen |= {"told": told, "sends": sends, "silences": silences}
    state = {"load": "loaded", "active": unit[0], "enabled": unit[1]} if unit else {}
    active = dict.fromkeys(observe.UNITS, state) if unit else {}
    return facts_of(
        host,
        errors={"observe": error} if error else {},
        units=active,
        observe=seen,
    )


def judged(
    check_id: str, head: HostFacts | None, *receivers: Mapping[str, object]
) -> dict[str, CheckResult]:
    known: Mapping[str, HostFacts] = {"head": head} if head else {}
    view = View(load_profile("hpc"), site(receivers), known)
    return {r.target: r for r in said_by(check_id, view, "head")}
