"""A realistic run: four GPU hosts with one bad GPU, one silent storage host, GPT-3 tables."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from appliance.models.result import CheckResult, Measurement, Status, Verdict
from appliance.models.run import (
    Expected,
    GpuRecord,
    HostRecord,
    KeptFile,
    Plot,
    PortRecord,
    RunRecord,
    Series,
    StageOutcome,
    StageState,
    Table,
)
from appliance.models.waiver import Waiver

START = datetime(2026, 11, 20, 13, 5, tzinfo=UTC)
GPU_HOSTS = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
HOSTS = ("head", "nas1", *GPU_HOSTS)
RecordBuilder = Callable[..., RunRecord]


@pytest.fixture
def sample() -> RunRecord:
    """The realistic run."""
    return sample_record()


@pytest.fixture
def build() -> RecordBuilder:
    """Makes a bare record; keywords replace its fields."""
    return bare_record


def bare_record(**changes: object) -> RunRecord:
    """A run that did nothing and judged nothing."""
    fields: dict[str, object] = {
        "run": "2026-11-20T13-05",
        "verb": "validate",
        "site": "acme",
        "profile": "hpc",
        "started": START,
        "finished": START + timedelta(seconds=1),
        "user": "kim",
        "appliance": "0.1.0",
        "control_host": "head",
        "verdict": Verdict.INCOMPLETE,
    }
    return RunRecord.model_validate(fields | changes)


def sample_record() -> RunRecord:
    """One run as it might have been on four hosts of eight GPUs."""
    return bare_record(
        profile_title="High performance compute, 8 SXM GPUs per host",
        finished=START + timedelta(minutes=47, seconds=12),
        verdict=Verdict.FAILED,
        expected=Expected(gpus=32, ports=32, rate_gbps=200),
        hosts=tuple(_host(name, index) for index, name in enumerate(HOSTS)),
        outcomes=_outcomes(),
        results=(*_cluster_results(), *_host_results()),
        measurements=_measurements(),
        versions=_versions(),
        tables=_tables(),
        left_out=("Burn-in: no run longer than 10 minutes was asked for",),
        waivers=(
            Waiver(
                check="os.smart",
                target="nas1",
                reason="array reports its disks itself",
                by="J. Doe",
                until="2027-03-01",
            ),
        ),
        evidence=tuple(
            KeptFile(path=p, sha256=f"{i:x}" * 64, size=s)
            for i, (p, s) in enumerate(
                [
                    ("facts.json", 482_113),
                    ("journal.sqlite", 90_112),
                    ("nccl/all_reduce.log", 8_220),
                ],
                10,
            )
        ),
    )


def _host(name: str, index: int) -> HostRecord:
    if name == "nas1":
        why = "no answer on port 22 (10.1.0.12): connection timed out"
        return HostRecord(name=name, roles=("storage",), address="10.1.0.12", unreachable=why)
    is_gpu = name in GPU_HOSTS
    return HostRecord(
        name=name,
        roles=("gpu",) if is_gpu else ("control", "login"),
        address=f"10.1.0.{11 + index}",
        os="ubuntu-24.04",
        kernel="6.8.0-79-generic",
        cpu="AMD EPYC 7742 64-Core Processor, 2 sockets, 128 cores"
        if is_gpu
        else "AMD EPYC 7313, 1 socket, 16 cores",
        memory=2**41 if is_gpu else 2**37,
        gpus=tuple(_gpu(index, i) for i in range(8)) if is_gpu else (),
        ports=tuple(_port(index, i) for i in range(8)) if is_gpu else (),
    )


def _gpu(host: int, index: int) -> GpuRecord:
    return GpuRecord(
        index=index,
        name="NVIDIA A100-SXM4-80GB",
        serial=f"13224210{host}{index:02}41",
        uuid=f"GPU-5f2{host}c{index}d1-07aa-{4000 + index}-9c1e-8d2b0f6e{host}{index}0a",
        vbios="92.00.45.00.05" if (host, index) == (4, 5) else "92.00.9E.00.01",
        driver="580.82.07",
        bus_id=f"0000:{index + 1:02x}:00.0",
        memory=80 * 2**30,
    )


def _port(host: int, index: int) -> PortRecord:
    down = (host, index) == (2, 4)
    return PortRecord(
        device=f"mlx5_{index}",
        port=1,
        guid=f"0xb83fd203009a{host}{index}c8",
        firmware="20.43.1014",
        board="MT_0000000223",
        state="DOWN" if down else "ACTIVE",
        rate=10 if down else 200,
        link_layer="InfiniBand",
    )


def _outcomes() -> tuple[StageOutcome, ...]:
    stages = {"base": (0, 41), "gpu": (45, 320), "fabric": (372, 95), "slurm": (470, 130)}
    done = [
        StageOutcome(
            stage=stage,
            host=host,
            state=StageState.DONE,
            seconds=length * (0.8 + 0.05 * index),
            changes=11 + index,
            started=START + timedelta(seconds=begin),
        )
        for stage, (begin, length) in stages.items()
        for index, host in enumerate(HOSTS)
        if host != "nas1" and (host in GPU_HOSTS or stage != "gpu")
    ]
    validated = [
        StageOutcome(
            stage="validate",
            host=host,
            state=StageState.DONE,
            seconds=2100,
            started=START + timedelta(seconds=620),
        )
        for host in GPU_HOSTS
    ]
    nas = StageOutcome(
        stage="base",
        host="nas1",
        state=StageState.FAILED,
        seconds=30,
        started=START,
        cause="no answer on port 22 (10.1.0.12): connection timed out",
        fix="check power and cable of nas1, then appliance deploy (continues there)",
    )
    blocked = StageOutcome(
        stage="storage", host="nas1", state=StageState.BLOCKED, why="base failed on nas1"
    )
    skipped = [
        StageOutcome(stage="storage", host=h, state=StageState.SKIPPED, why="as its receipt says")
        for h in GPU_HOSTS
    ]
    return (*done[:5], nas, *done[5:], *skipped, blocked, *validated)


def _cluster_results() -> tuple[CheckResult, ...]:
    nccl = {"id": "nccl.all_reduce", "unit": "GB/s", "limit_source": "NVIDIA, 8 HDR per node, 2023"}
    return (
        CheckResult(target="cluster", status=Status.PASS, value=189.4, limit=184.0, **nccl),
        CheckResult(
            id="slurm.accounting", target="cluster", status=Status.PASS, value=True, limit=True
        ),
    )


def _host_results() -> list[CheckResult]:
    results: list[CheckResult] = []
    for index, host in enumerate(("head", *GPU_HOSTS)):
        results += [
            CheckResult(
                id="base.clock",
                target=host,
                status=Status.PASS,
                value=0.00012 * (index + 1),
                unit="s",
                limit=0.05,
                limit_source="profile hpc",
            ),
            CheckResult(
                id="base.kernel", target=host, status=Status.PASS, value="6.8.0-79-generic"
            ),
            CheckResult(
                id="base.units",
                target=host,
                status=Status.PASS,
                value=0,
                unit="failed units",
                limit=0,
            ),
            CheckResult(
                id="storage.mount", target=host, status=Status.SKIP, cause="nas1 did not answer"
            ),
        ]
        if host in GPU_HOSTS:
            results += _gpu_results(host, index)
    results.append(
        CheckResult(
            id="os.smart",
            target="nas1",
            status=Status.NOT_ASSESSED,
            cause="no answer from the host",
        )
    )
    return results


def _gpu_results(host: str, index: int) -> list[CheckResult]:
    azure = "AzureHPC node health checks, A100 SXM, 2025-06"
    bad = host == "gpu-3"
    made: list[CheckResult] = []
    for gpu in range(8):
        at = f"{host}/GPU {gpu}"
        slow = bad and gpu == 5
        made += [
            CheckResult(
                id="gpu.ecc",
                target=at,
                status=Status.PASS,
                value=0,
                unit="uncorrected",
                limit=0,
                limit_source="NVIDIA GPU debug guidelines",
            ),
            CheckResult(
                id="gpu.pcie",
                target=at,
                status=Status.FAIL if slow else Status.PASS,
                value="Gen4 x8" if slow else "Gen4 x16",
                limit="Gen4 x16",
                limit_source="profile hpc",
                cause="GPU 5 runs at Gen4 x8, the profile says Gen4 x16" if slow else "",
                fix="reseat GPU 5 (slot 7, serial 132242104541); then appliance validate single --hosts gpu-3"
                if slow
                else "",
                evidence="facts.json" if slow else "",
            ),
            CheckResult(
                id="gpu.bandwidth",
                target=at,
                status=Status.FAIL if slow else Status.PASS,
                value=12.3 if slow else 24.1 + 0.1 * gpu + 0.05 * index,
                unit="GB/s",
                limit=21,
                limit_source=azure,
                cause="host to device at half of what a x16 link gives" if slow else "",
            ),
        ]
    warm = host == "gpu-1"
    return [
        *made,
        CheckResult(
            id="gpu.driver", target=host, status=Status.PASS, value="580.82.07", limit="580"
        ),
        CheckResult(
            id="fabric.errors",
            target=f"{host}/mlx5_4",
            status=Status.WARN if warm else Status.PASS,
            value=212 if warm else 3,
            unit="errors/h",
            limit=120,
            limit_source="IB specification 10E-12 at HDR",
            cause="symbol errors grow on leaf2 port 14" if warm else "",
            fix="clean or replace cable MT2245VS01234" if warm else "",
        ),
        CheckResult(
            id="fabric.rdma",
            target=host,
            status=Status.ERROR if host == "gpu-4" else Status.PASS,
            value=None if host == "gpu-4" else 23.9,
            unit="GB/s",
            limit=22.5,
            cause="ib_write_bw ended with status 1: Unable to init the socket connection"
            if host == "gpu-4"
            else "",
        ),
    ]


_BARE = {8: 48_941, 16: 97_541, 32: 185_090}
_KUBE = {8: 48_131, 16: 95_545, 32: 182_791}
_HERE = {8: 48_702, 16: 96_890, 32: 183_655}


def _measurements() -> tuple[Measurement, ...]:
    return tuple(
        Measurement(
            name="GPT-3 5B on Slurm",
            value=value,
            unit="tokens/s",
            detail={
                "gpus": gpus,
                "reference": _BARE[gpus],
                "source": "whitepaper, bare metal, 2023",
            },
        )
        for gpus, value in _HERE.items()
    )


def _tables() -> tuple[Table, ...]:
    rows = [
        ("this site, Slurm", *_HERE.values()),
        ("reference, bare metal", *_BARE.values()),
        ("reference, Kubernetes", *_KUBE.values()),
        ("this site ÷ bare metal", "99.51 %", "99.33 %", "99.22 %"),
        ("linear factor, this site", 1.0, 1.99, 3.77),
    ]
    nodes = {8: 1, 16: 2, 32: 4}
    plot = Plot(
        title="GPT-3 5B scaling",
        x_label="nodes of 8 GPUs",
        y_label="tokens/s",
        series=(
            Series(label="this site, Slurm", points=tuple((nodes[g], v) for g, v in _HERE.items())),
            Series(
                label="reference, bare metal",
                kind="reference",
                points=tuple((nodes[g], v) for g, v in _BARE.items()),
            ),
            Series(
                label="perfect linear from this site's one node",
                kind="ideal",
                points=((1, 48_702), (2, 97_404), (4, 194_808)),
            ),
        ),
    )
    return (
        Table(
            title="GPT-3 5B, tokens/s",
            columns=("", "1 node, 8 GPUs", "2 nodes, 16", "4 nodes, 32"),
            rows=tuple(rows),
            note="Mean of steps 35 to 44 of 50. Sequence 2048, global batch 2048, bf16. FLOPs by NeMo's causal formula: 61.4 % MFU on one node.",
            plot=plot,
        ),
        Table(
            title="NCCL all_reduce, bus bandwidth in GB/s",
            columns=("message", "1 node", "4 nodes"),
            rows=(("128 MiB", 203.7, 151.2), ("1 GiB", 231.4, 181.0), ("8 GiB", 235.7, 189.4)),
        ),
    )


def _versions() -> dict[str, dict[str, str]]:
    same = {"os": "ubuntu-24.04", "kernel": "6.8.0-79-generic"}
    gpu = same | {"gpu driver": "580.82.07", "cuda": "13.0", "slurm": "24.11.5"}
    return {
        "head": same | {"slurm": "24.11.5"},
        **{host: gpu | ({"slurm": "24.11.4"} if host == "gpu-2" else {}) for host in GPU_HOSTS},
    }
