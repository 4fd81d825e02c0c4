"""perftest between hosts of Kubernetes: one pod on each host of a pair; the client's figures count."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from appliance.adapters.pods import PodWork, Rank
from appliance.adapters.process import run
from appliance.benchmarks.perftest import run as perftest
from appliance.models.result import Status
from tests.support.batches import answer
from tests.support.perftest_cluster import BW, LAT, RAILS, view
from tests.support.pod_gangs import gangs, of_kubernetes

HOSTS = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")


def printed(bandwidth: str = BW) -> str:
    return "\n".join(
        f"appliance-part write_bw {device}\n{bandwidth}\nappliance-part write_lat {device}\n{LAT}"
        for device in RAILS
    )


def found(server: str, slow: str = "") -> dict[tuple[str, str], Status]:
    """The verdicts; ``server``: what the servers print, ``slow``: a host of slow ports."""

    def gang(hosts: Sequence[str], work: PodWork) -> tuple[Rank, ...]:
        one, other = hosts
        text = printed(BW.replace("197.20", "97.20")) if slow in hosts else printed()
        return (Rank(one, 0, answer(one, server)), Rank(other, 0, answer(other, text)))

    results = perftest.run(of_kubernetes(view(HOSTS)), gangs(HOSTS, gang)).results
    return {(r.id, r.target): r.status for r in results}


@pytest.mark.parametrize("server", ["", printed(BW.replace("197.20", "1.00")) + " " * 99999])
def test_sound_rails_pass_whatever_the_server_prints(server: str) -> None:
    results = found(server)
    for host in HOSTS:
        for device in RAILS:
            assert results["perftest.write_bw", f"{host}/{device}"] is Status.PASS


def test_the_host_of_slow_ports_is_named() -> None:
    results = found("", slow="gpu-3")
    bad = {target for (_, target), status in results.items() if status is Status.FAIL}
    assert bad == {f"gpu-3/{device}" for device in RAILS}


def test_the_pod_of_the_server_waits_and_that_of_the_client_measures(tmp_path: Path) -> None:
    tool = '#!/bin/sh\necho "$@" >>$CALLS\necho figures\n'
    for name in ("ib_write_bw", "ib_write_lat"):
        (tmp_path / name).write_text(tool)
    (tmp_path / "timeout").write_text('#!/bin/sh\necho "bound $1" >>$CALLS\nshift\nexec "$@"\n')
    (tmp_path / "sleep").write_text("#!/bin/sh\n")
    for file in tmp_path.iterdir():
        file.chmod(0o755)
    words = ("sh", "-c", perftest.SCRIPT, "sh", "3", "gpu-1", "10.0.0.1", "mlx5_0:")
    calls = tmp_path / "calls"
    shown = {}
    for host in ("gpu-1", "gpu-2"):
        calls.unlink(missing_ok=True)
        path = f"{tmp_path}:{os.environ['PATH']}"
        own = {"PATH": path, "CALLS": str(calls), "NODE_NAME": host, "SLURMD_NODENAME": ""}
        done = run(words, env=own, timeout=30)
        shown[host] = done.stdout, calls.read_text()
    assert "figures" not in shown["gpu-1"][0], "a server prints nothing"
    assert "10.0.0.1" not in shown["gpu-1"][1]
    bounds = [line for line in shown["gpu-1"][1].splitlines() if line.startswith("bound")]
    assert bounds == ["bound 108", "bound 18"], "it waits for the first part alone"
    assert "appliance-part write_bw mlx5_0\nfigures" in shown["gpu-2"][0]
    assert "10.0.0.1" in shown["gpu-2"][1]
