"""The checks of stage observe: the good case, the fault that trips each, and the missing measurement."""

from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any, cast

import pytest

from appliance.alerts import WITHOUT_SLURM
from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.config.secrets import Secret
from appliance.errors import ConfigError
from appliance.models.facts import HostFacts, Unit
from appliance.models.result import Status
from appliance.models.site import Role
from appliance.stages.base.site import Admin, BaseOptions
from appliance.stages.context import RoleContext
from appliance.stages.kubernetes.facts import Kubernetes
from appliance.stages.kubernetes.site import KubernetesOptions
from appliance.stages.observe.facts import HeldPort
from appliance.stages.observe.site import ObserveOptions
from appliance.stages.observe.variables import DCGM_EXPORTER, variables
from appliance.stages.scheduler.site import SchedulerOptions
from appliance.stages.slurm.site import SlurmOptions
from tests.support.judging import said_by
from tests.support.observe_facts import HOSTS, ONCALL, RULES, UP, facts, judged, site

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"


def test_all_targets_up_pass_one_by_one() -> None:
    results = judged("observe.targets", facts("head", targets=UP))
    assert set(results) == {"head", "gpu-1", "gpu-2", "head/prometheus"}
    assert {r.status for r in results.values()} == {Status.PASS}


def test_a_target_that_is_missing_fails_and_is_named() -> None:
    results = judged("observe.targets", facts("head", targets=UP[1:]))
    assert results["head"].status is Status.FAIL
    assert "not a target" in results["head"].cause
    assert results["gpu-1"].status is Status.PASS


def test_a_target_that_is_down_fails_with_prometheuss_reason() -> None:
    down = [(j, i, "down" if i == "gpu-2" else h) for j, i, h in UP]
    result = judged("observe.targets", facts("head", targets=down))["gpu-2"]
    assert result.status is Status.FAIL
    assert "refused" in result.cause
    assert "gpu-2" in result.fix


def test_prometheus_that_does_not_answer_itself_is_no_matter_of_an_exporter() -> None:
    down = [(j, i, "down" if j == "prometheus" else h) for j, i, h in UP]
    result = judged("observe.targets", facts("head", targets=down))["head/prometheus"]
    assert result.status is Status.FAIL
    assert result.fix == "on head: journalctl -u prometheus.service"


def test_a_target_not_scraped_yet_is_no_pass() -> None:
    fresh = [(j, i, "unknown") for j, i, _ in UP]
    results = judged("observe.targets", facts("head", targets=fresh))
    assert {r.status for r in results.values()} == {Status.NOT_ASSESSED}


def test_a_prometheus_that_has_only_just_started_lacks_no_target() -> None:
    (fresh,) = judged("observe.targets", facts("head", targets=(), waiting=3)).values()
    assert (fresh.status, "again in a minute" in fresh.fix) == (Status.NOT_ASSESSED, True)
    later = judged("observe.targets", facts("head", targets=())).values()
    assert {r.status for r in later} == {Status.FAIL}


def test_rules_loaded_pass_and_a_lost_one_fails() -> None:
    good = judged("observe.rules", facts("head", targets=UP, rules=RULES + 2))
    assert good["cluster"].status is Status.PASS
    lost = judged("observe.rules", facts("head", targets=UP, rules=RULES - 1))["cluster"]
    assert (lost.status, lost.value, lost.limit) == (Status.FAIL, RULES - 1, RULES)


def test_a_site_without_slurm_has_fewer_rules() -> None:
    known = {"head": facts("head", targets=UP, rules=len(WITHOUT_SLURM))}
    for slurm, status in ((SlurmOptions(), Status.FAIL), (None, Status.PASS)):
        view = View(load_profile("hpc"), site().model_copy(update={"slurm": slurm}), known)
        assert [r.status for r in said_by("observe.rules", view)] == [status]


def test_a_firing_alert_is_a_warning_with_its_name() -> None:
    assert judged("observe.alerts", facts("head", targets=UP))["cluster"].status is Status.PASS
    result = judged("observe.alerts", facts("head", targets=UP, firing=("HostDown",)))["cluster"]
    assert result.status is Status.WARN
    assert "HostDown" in result.cause


def test_no_alert_can_fire_where_no_rule_is_loaded() -> None:
    result = judged("observe.alerts", facts("head", targets=UP, rules=0))["cluster"]
    assert result.status is Status.NOT_ASSESSED


def test_that_no_alert_fires_is_not_known_before_the_rules_were_evaluated() -> None:
    fresh = judged("observe.alerts", facts("head", targets=UP, waiting=3))["cluster"]
    assert fresh.status is Status.NOT_ASSESSED
    assert f"not evaluated 3 of {RULES} alert rules yet" in fresh.cause
    assert "again in a minute" in fresh.fix
    firing = facts("head", targets=UP, waiting=3, firing=("HostDown",))
    assert judged("observe.alerts", firing)["cluster"].status is Status.WARN


WATCHED = {
    "observe.exporter": ["head"],
    "observe.server": ["head/prometheus", "head/appliance-prometheus"],
}
"""What each check of units judges on the first control host."""


@pytest.mark.parametrize("check_id", WATCHED)
def test_units_that_run_pass(check_id: str) -> None:
    results = judged(check_id, facts("head"))
    assert {name: r.status for name, r in results.items()} == dict.fromkeys(
        WATCHED[check_id], Status.PASS
    )


@pytest.mark.parametrize("check_id", WATCHED)
@pytest.mark.parametrize(
    "unit", [("failed", "enabled"), ("inactive", "enabled"), ("active", "disabled")]
)
def test_units_that_are_down_or_gone_after_a_reboot_fail(
    check_id: str, unit: tuple[str, str]
) -> None:
    results = judged(check_id, facts("head", unit=unit)).values()
    assert {r.status for r in results} == {Status.FAIL}
    assert all(unit[0] in r.cause and "on head: journalctl" in r.fix for r in results)


@pytest.mark.parametrize("check_id", WATCHED)
def test_units_nobody_asked_about_are_not_assessed(check_id: str) -> None:
    for unit in (None, ("unknown", "")):
        results = judged(check_id, facts("head", unit=unit)).values()
        assert {r.status for r in results} == {Status.NOT_ASSESSED}
        assert all("not read" in r.cause for r in results)


def test_prometheus_is_looked_for_on_the_first_control_host_alone() -> None:
    view = View(load_profile("hpc"), site(), {"gpu-1": facts("gpu-1", unit=None)})
    assert said_by("observe.server", view, "gpu-1") == []


@pytest.mark.parametrize("check_id", ["observe.targets", "observe.rules", "observe.alerts"])
def test_a_silent_prometheus_is_never_a_pass(check_id: str) -> None:
    for head in (None, facts("head"), facts("head", error="Prometheus does not listen")):
        (result,) = judged(check_id, head).values()
        assert (result.status, result.required) == (Status.NOT_ASSESSED, True)
    assert "does not listen" in result.cause


def test_the_first_control_host_alone_serves_and_knows_every_target() -> None:
    made = {host.name: variables(_context(host.name)) for host in site().hosts}
    assert [name for name, v in made.items() if v["observe_server"]] == ["head"]
    targets = made["head"]["observe_targets"]
    assert isinstance(targets, list)
    assert [t["instance"] for t in targets] == list(HOSTS)
    assert targets[1]["address"] == "10.0.0.11:9100"
    assert made["gpu-1"]["observe_targets"] == []


def test_who_may_ask_is_root_prometheus_and_admins_who_become_root() -> None:
    described = site().model_copy(
        update={
            "base": BaseOptions(
                admins=(
                    Admin(name="ada", keys=(KEY,)),
                    Admin(name="bob", keys=(KEY,), sudo=False),
                )
            ),
            "observe": ObserveOptions(open_to=(IPv4Network("192.0.2.9/32"),)),
        }
    )
    head, other = (replace(_context(name), site=described) for name in ("head", "gpu-1"))
    made = variables(head)
    assert (made["observe_readers"], made["observe_askers"]) == (["ada"], [])
    assert (made["observe_ports"], made["observe_prometheus"]) == (
        [9090, 9093, 9100, 9400],
        "10.0.0.10",
    )
    assert made["observe_open_to"] == ["192.0.2.9/32"]
    made = variables(other)
    assert (made["observe_readers"], made["observe_askers"]) == ([], [])
    assert (made["observe_ports"], made["observe_prometheus"]) == ([9100, 9400, 5555], "10.0.0.10")


def test_other_control_hosts_ask_and_hide_what_etcd_serves() -> None:
    hosts = tuple(
        host.model_copy(update={"roles": (*host.roles, Role.CONTROL)})
        if host.name == "gpu-1"
        else host
        for host in site().hosts
    )
    described = site().model_copy(update={"hosts": hosts, "kubernetes": KubernetesOptions()})
    head, second = (
        replace(_context(name), site=described, host=described.host(name))
        for name in ("head", "gpu-1")
    )
    assert variables(head)["observe_askers"] == ["10.0.0.11"]
    assert variables(head)["observe_ports"] == [9090, 9093, 9100, 9400, 2381]
    assert variables(second)["observe_ports"] == [9100, 9400, 5555, 2381]


def test_grafana_asks_where_it_is_installed() -> None:
    unit = Unit(load="loaded", active="inactive", enabled="disabled")
    installed = facts("head").model_copy(update={"units": {"grafana-server.service": unit}})
    missing = facts("head").model_copy(
        update={"units": {"grafana-server.service": unit.model_copy(update={"load": "not-found"})}}
    )
    context = _context("head")
    found = [
        variables(replace(context, facts=known))["observe_grafana"]
        for known in ({"head": installed}, {"head": missing}, {})
    ]
    assert found == [True, False, False]


def _context(name: str) -> RoleContext:
    described = site()
    return RoleContext(load_profile("hpc"), described, described.host(name), {}, {})


def test_who_is_told_lies_on_the_first_control_host_alone_and_only_as_an_address() -> None:
    described = site(
        [ONCALL, {"name": "boss", "email": "boss@example.com", "severity": "critical"}]
    )
    secrets = {"receiver.oncall": Secret("https://hooks.example.com/T0")}
    head, other = (
        RoleContext(load_profile("hpc"), described, described.host(name), secrets, {})
        for name in ("head", "gpu-1")
    )
    assert variables(other)["observe_receivers"] == []
    oncall, boss = cast("list[dict[str, object]]", variables(head)["observe_receivers"])
    assert (oncall["webhook"], oncall["email"], oncall["critical"]) == (
        "https://hooks.example.com/T0",
        "",
        False,
    )
    assert (boss["webhook"], boss["email"], boss["critical"]) == ("", "boss@example.com", True)
    for wrong in ("hooks.example.com/T0", "https://hooks.example.com/T0\nx", "ftp://x.example.com"):
        with pytest.raises(ConfigError, match="receiver oncall is not an http") as refused:
            variables(replace(head, secrets={"receiver.oncall": Secret(wrong)}))
        assert wrong not in str(refused.value)


def test_a_dcgm_exporter_is_scraped_where_it_was_seen_running_and_nowhere_else() -> None:
    running = facts("gpu-1").model_copy(update={"units": _unit("active")})
    stopped = facts("gpu-2").model_copy(update={"units": _unit("inactive")})
    context = replace(_context("head"), facts={"gpu-1": running, "gpu-2": stopped})
    simulated = running.model_copy(update={"simulated": ("gpu",)})
    pretended = replace(context, facts={"gpu-1": simulated})
    assert variables(pretended)["observe_gpu_targets"] == []
    expected = [{"instance": "gpu-1", "address": "10.0.0.11:9400"}]
    assert variables(context)["observe_gpu_targets"] == expected


def _unit(active: str) -> dict[str, Unit]:
    return {DCGM_EXPORTER: Unit(load="loaded", active=active, enabled="enabled")}


def test_a_cluster_is_asked_once_its_control_plane_is_there() -> None:
    described = site().model_copy(
        update={"kubernetes": KubernetesOptions(), "scheduler": SchedulerOptions()}
    )
    context = RoleContext(load_profile("hpc"), described, described.host("head"), {}, {})
    assert variables(context)["observe_cluster"] == {}
    there = facts("head").model_copy(
        update={"kubernetes": Kubernetes(certificates={"/etc/kubernetes/pki/ca.crt": 3650.0})}
    )
    asked: Any = variables(replace(context, facts={"head": there}))["observe_cluster"]
    assert [a["address"] for a in asked["apis"]] == ["10.0.0.10:6443"]
    assert [k["instance"] for k in asked["kubelets"]] == list(HOSTS)
    assert [k["instance"] for k in asked["kai"]] == ["queues", "scheduler"]
    for changed in ({"scheduler": None}, {"kubernetes": None}):
        other = replace(context, site=described.model_copy(update=changed), facts={"head": there})
        told: Any = variables(other)["observe_cluster"]
        assert not told or not told["kai"]
    assert not told


TOLD = "observe.receivers"


def test_a_site_that_names_nobody_is_not_judged_by_who_is_told() -> None:
    assert judged(TOLD, facts("head", targets=UP)) == {}


def test_receivers_that_alertmanager_knows_and_is_given_alerts_for_pass() -> None:
    found = judged(TOLD, facts("head", targets=UP, told=("chat", "oncall")), ONCALL)
    assert (found["cluster"].status, found["cluster"].value) == (Status.PASS, 1)


@pytest.mark.parametrize(
    ("head", "cause"),
    [
        (facts("head", targets=UP), "does not answer on head"),
        (facts("head", targets=UP, told=("chat",)), "has no receiver oncall"),
        (facts("head", targets=UP, told=("oncall",), sends=0), "to no Alertmanager"),
        (
            facts("head", targets=UP, told=("oncall",), firing=("AlertsUndelivered",)),
            "cannot deliver",
        ),
    ],
)
def test_alerts_that_reach_nobody_fail(head: HostFacts, cause: str) -> None:
    found = judged(TOLD, head, ONCALL)["cluster"]
    assert found.status is Status.FAIL
    assert cause in found.cause
    assert found.fix


@pytest.mark.parametrize(
    "head",
    [
        None,
        facts("head"),
        facts("head", targets=UP, error="Alertmanager: timed out"),
        facts("head", targets=UP, told=("oncall",), waiting=3),
    ],
)
def test_who_is_told_is_not_assessed_where_nobody_says_so(head: HostFacts | None) -> None:
    assert judged(TOLD, head, ONCALL)["cluster"].status is Status.NOT_ASSESSED


def test_alertmanager_is_a_target_and_a_unit_where_the_site_has_receivers() -> None:
    up = facts("head", targets=UP, unit=("active", "enabled"))
    missing = judged("observe.targets", up, ONCALL)["head/alertmanager"]
    assert "Alertmanager is not a target" in missing.cause
    assert "head/alertmanager" not in judged("observe.targets", up)
    assert "head/prometheus-alertmanager" in judged("observe.server", up, ONCALL)
    assert "head/prometheus-alertmanager" not in judged("observe.server", up)


@pytest.mark.parametrize(
    ("process", "program", "fix"),
    [
        (
            71,
            "python3",
            "on head: if no one needs it: kill 71; sleep 2; systemctl reset-failed prometheus.service; systemctl restart prometheus.service",
        ),
        (1, "systemd", "systemctl list-sockets shows the unit with :9090"),
    ],
)
def test_the_program_that_holds_the_port_is_named(process: int, program: str, fix: str) -> None:
    """Field case 30."""
    held = {"port": 9090, "program": program, "process": process}
    seen = facts("head", unit=("failed", "enabled")).model_copy(
        update={"held_ports": (HeldPort.model_validate(held),)}
    )
    result = judged("observe.server", seen)["head/prometheus"]
    assert result.status is Status.FAIL
    assert f"port 9090 is held by {program} (process {process})" in result.cause
    assert fix in result.fix
