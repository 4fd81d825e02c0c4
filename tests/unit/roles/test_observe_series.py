"""Which series Prometheus takes of a host: root on a GPU host reports on that host, not on the whole site."""

import re
from typing import Any

import pytest
import yaml  # noqa: TID251 - reads the rendered configuration

from appliance.alerts import ALERTS
from appliance.alerts.alert import MOST
from appliance.alerts.rules_file import rules as rules_of
from tests.support.rendering import rendered

HEAD = {"address": "10.0.0.10:9100", "instance": "head", "roles": "control,storage"}
GPU = {"address": "10.0.0.11:9100", "instance": "gpu-1", "roles": "gpu"}
GIVEN: dict[str, Any] = {
    "observe_site": "acme",
    "observe_instance": "head",
    "observe_targets": [HEAD, GPU],
    "observe_gpu_targets": [GPU],
    "observe_receivers": [],
    "observe_cluster": {
        "apis": [HEAD],
        "kubelets": [HEAD, GPU],
        "etcd": "10.0.0.10:2381",
        "kai": [],
    },
}
OF_SITE = (
    *("slurm_up", "slurm_node_state", "appliance_limits_stuck"),
    *("appliance_check_status", "appliance_checked_timestamp_seconds"),
    *("ALERTS", "kai_queue_gpu_usage", "grpc_server_handled_total", "apiserver_request_total"),
    *("etcd_server_quota_backend_bytes", "prometheus_config_last_reload_successful"),
    *("alertmanager_notifications_failed_total", "up", "scrape_samples_scraped"),
)
OF_HOST = ("node_load1", "appliance_watch_unfit", "DCGM_FI_DEV_GPU_TEMP")


def kept(job: dict[str, Any], series: str, roles: str) -> bool:
    """Whether no rule of the job drops a series (metric_relabel_configs)."""
    labels = {"__name__": series, "roles": roles}
    return not any(
        re.fullmatch(rule["regex"], ";".join(labels.get(n, "") for n in rule["source_labels"]))
        for rule in job["metric_relabel_configs"]
        if rule["action"] == "drop"
    )


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    text = rendered(("observe",), "head", GIVEN)["observe/etc/prometheus/prometheus.yml.j2"]
    return {job["job_name"]: job for job in yaml.safe_load(text)["scrape_configs"]}


@pytest.mark.parametrize("job", ["node", "dcgm", "kubelet"])
def test_no_exporter_of_a_gpu_host_reports_on_the_site(jobs: dict[str, Any], job: str) -> None:
    assert not [series for series in OF_SITE if kept(jobs[job], series, GPU["roles"])]
    assert all(kept(jobs[job], series, GPU["roles"]) for series in OF_HOST)


def test_a_control_host_reports_on_the_site(jobs: dict[str, Any]) -> None:
    for roles in (HEAD["roles"], "control", "storage,control", "gpu,control"):
        assert all(kept(jobs["node"], series, roles) for series in OF_SITE)


@pytest.mark.parametrize("roles", ["gpu,login", "login,gpu", "storage,gpu", "login", "storage"])
def test_no_host_without_the_control_plane_reports_on_the_site(
    jobs: dict[str, Any], roles: str
) -> None:
    assert not [series for series in OF_SITE if kept(jobs["node"], series, roles)]
    assert all(kept(jobs["node"], series, roles) for series in OF_HOST)


def test_one_host_raises_a_bounded_number_of_alerts_by_each_rule(jobs: dict[str, Any]) -> None:
    """A rule without bound reads nothing that a GPU host can export."""
    unbounded = [alert.expr for alert in ALERTS if alert.bounded == alert.expr]
    assert unbounded
    for expr in unbounded:
        read = set(re.findall(r"\b(?:slurm|appliance|node|up|DCGM)_?[A-Za-z_]*", expr))
        assert read
        assert not [name for name in read if kept(jobs["node"], name, GPU["roles"])], expr
    bounded = [alert for alert in ALERTS if alert.expr not in unbounded]
    assert all(a.bounded == f"topk by (instance) ({MOST}, {a.expr})" for a in bounded)
    assert len(bounded) > len(unbounded)


def test_every_alert_about_the_site_reads_such_a_series() -> None:
    read = {
        name
        for alert in ALERTS
        for name in re.findall(r"\b(?:slurm|appliance)_[a-z_]+", alert.expr)
    }
    assert {"slurm_node_state", "appliance_check_status"} <= read
    of_host = {name for name in read if name.startswith("appliance_watch_")}
    rule = r"(slurm|appliance_check|appliance_checked|appliance_limits)_.+"
    assert all(re.fullmatch(rule, name) for name in read - of_host)


@pytest.mark.parametrize("job", ["node", "dcgm", "kubelet"])
def test_no_exporter_gives_labels_that_rules_give(jobs: dict[str, Any], job: str) -> None:
    """Two series that differ in such a label alone make one alert twice: Prometheus stops that rule, for all hosts."""
    text = rules_of(ALERTS)
    given = {
        name
        for group in yaml.safe_load(text)["groups"]
        for rule in group["rules"]
        for name in ("alertname", *rule["labels"])
    }
    assert "severity" in given
    first = jobs[job]["metric_relabel_configs"][0]
    assert first["action"] == "labeldrop"
    assert all(re.fullmatch(first["regex"], name) for name in given)
    assert not re.fullmatch(first["regex"], "instance")


def test_no_rule_reads_every_sample_of_hours() -> None:
    """Prometheus stops a query at 50 million samples; one host may export 100,000 series, every ten seconds."""
    ranges = [r for alert in ALERTS for r in re.findall(r"\[(\d+[mhd](?::\d+m)?)\]", alert.expr)]
    assert {"1h", "6h:5m"} <= set(ranges)
    minutes = {"m": 1, "h": 60, "d": 1440}
    assert all(int(r[:-1]) * minutes[r[-1]] <= 60 for r in ranges if ":" not in r)


def test_of_series_that_are_compared_over_hosts_one_host_moves_no_threshold() -> None:
    """A maximum over all hosts is one host's word: the second largest is not."""
    over_all = [a.expr for a in ALERTS if re.search(r"\bon \(\)", a.expr)]
    assert over_all
    assert all("min(topk(2, max by (instance)" in expr for expr in over_all)
    assert not [a.name for a in ALERTS if re.search(r"(?<!\w)(max|min|avg|sum)\(node_", a.expr)]
