"""Every panel of the boards against the rack's Prometheus: what the rack can feed returns series, the rest is listed."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from boards import BOARDS
from tests.integration.deployed import Deployed, way_in
from tests.support.prometheus_queries import Prometheus, queries

pytestmark = pytest.mark.rack

METRICS = "/var/lib/prometheus/node-exporter"
PATIENCE = 90


def unfed() -> set[tuple[str, str]]:
    """What docs/boards.md says the rack cannot feed."""
    return {(b.name, p.title) for b in BOARDS for p in b.panels if p.needs}


@pytest.fixture(scope="module")
def prometheus(deployed: Deployed) -> Iterator[Prometheus]:
    """With a job that runs, one that waits, and the checks' results, all of which a working site has."""
    told = deployed.program("health", "--format", "prometheus").stdout
    assert "appliance_check_results" in told
    deployed.shell("head", f"cat > {METRICS}/appliance.prom", input=told)
    first = deployed.said(
        "head", "sbatch --parsable -N2 --gres=gpu:8 --wrap 'sleep 600' -o /dev/null"
    )
    second = deployed.said(
        "head", "sbatch --parsable -N2 --gres=gpu:8 --wrap 'sleep 600' -o /dev/null"
    )
    try:
        _until(deployed, f"squeue -h -j {first.strip()} -o %T", "RUNNING")
        deployed.said("head", "systemctl start appliance-slurm-metrics.service")
        with way_in(deployed.name, "head") as url:
            yield Prometheus(url)
    finally:
        deployed.said(
            "head", f"scancel {first.strip()} {second.strip()}; rm -f {METRICS}/appliance.prom"
        )
        _until(deployed, "squeue -h -o %T", "")
        deployed.said("head", "systemctl start appliance-slurm-metrics.service")


def _until(deployed: Deployed, script: str, said: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while deployed.said("head", script).strip() != said:
        assert time.monotonic() < deadline, f"{script}: not {said!r} within {PATIENCE} s"
        time.sleep(1)


def test_every_panel_the_rack_can_feed_returns_series(prometheus: Prometheus) -> None:
    missing = {(b, p, e) for b, p, e in queries() if (b, p) not in unfed()}
    assert missing
    deadline = time.monotonic() + PATIENCE
    while missing and time.monotonic() < deadline:
        missing = {(b, p, e) for b, p, e in missing if not prometheus.series(e)}
        time.sleep(2 if missing else 0)
    assert missing == set()


def test_what_is_listed_as_not_fed_is_not(prometheus: Prometheus) -> None:
    fed = {(b, p) for b, p, e in queries() if (b, p) in unfed() and prometheus.series(e)}
    assert fed == set(), "the rack feeds these: take them off the list"


def test_the_role_put_the_boards_where_grafana_looks(deployed: Deployed) -> None:
    provider = deployed.said("head", "cat /etc/grafana/provisioning/dashboards/appliance.yaml")
    folder = re.search(r"path: (\S+)", provider)
    assert folder
    names = deployed.said("head", f"ls {folder[1]}").split()
    assert names == sorted(f"{board.name}.json" for board in BOARDS)
    assert Path(folder[1]).is_absolute()
