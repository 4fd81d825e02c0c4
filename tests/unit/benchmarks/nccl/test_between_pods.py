"""Collectives between hosts of Kubernetes: what a gang of pods prints is judged as nccl-tests are, and who stopped it is named."""

import json
from collections.abc import Callable, Sequence

import pytest

from appliance.adapters.pods import PodWork, Rank
from appliance.benchmarks.jobs import HostAccess, Trouble, together
from appliance.benchmarks.nccl import between_pods
from appliance.benchmarks.nccl import run as nccl
from appliance.benchmarks.nccl.collective import FACTOR, IN_VAIN, NO_TORCH
from appliance.benchmarks.reading import Unread
from appliance.errors import ConnectionFailed
from appliance.models.result import CheckResult, Status
from appliance.models.site import Owner
from tests.support.batches import answer
from tests.support.nccl_cluster import A100, HOST, view
from tests.support.pod_gangs import Gangs, gangs, of_kubernetes

GIB = 1 << 30


def rows(hosts: Sequence[str], kind: str, busbw: float, wrong: int = 0, gpus: int = 8) -> str:
    """What the first rank prints."""
    ranks = [{"host": h, "device": g, "name": A100} for h in hosts for g in range(gpus)]
    lines: list[dict[str, object]] = [
        {"kind": "begin", "collective": kind, "gpus": True, "program": "torch 2", "ranks": ranks}
    ]
    for size in (GIB // 2, GIB, 2 * GIB):
        factor = FACTOR[kind](len(ranks))
        us = size / 1000 * factor / busbw
        lines.append({"kind": "row", "size": size, "us": us, "busbw": busbw, "wrong": wrong})
    return "\n".join(json.dumps(line) for line in [*lines, {"kind": "end"}]) + "\n"


Answer = Callable[[Sequence[str], str], tuple[Rank, ...]]


def good(hosts: Sequence[str], kind: str) -> tuple[Rank, ...]:
    return printed(hosts, rows(hosts, kind, 191.0))


def printed(hosts: Sequence[str], text: str) -> tuple[Rank, ...]:
    texts = [text, *[""] * (len(hosts) - 1)]
    return tuple(Rank(host, 0, answer(host, said)) for host, said in zip(hosts, texts, strict=True))


def found(count: int, said: Answer = good) -> dict[tuple[str, str], CheckResult]:
    seen = of_kubernetes(view(count))
    remote = through([host.name for host in seen.site.gpu_hosts_of(Owner.KUBERNETES)], said)
    return {(r.id, r.target): r for r in nccl.run(seen, remote).results}


def through(hosts: Sequence[str], said: Answer) -> Gangs:
    """Pods on these hosts, by the collective that their program measures."""

    def gang(members: Sequence[str], work: PodWork) -> tuple[Rank, ...]:
        return said(members, next(word for word in work.argv if word in FACTOR))

    return gangs(hosts, gang, lambda host: answer(host, HOST.replace("gpu-1 ", f"{host} ")))


def lost(said: str) -> str:
    """What the wrapper prints of a program that waited in vain."""
    head, end = answer("x", "", IN_VAIN).rstrip().rsplit("\n", 1)
    return f"{head}\nappliance-said={said}\n{end}\n"


def failing(host: str, code: int | None, text: str = "") -> Answer:
    """One host ends with this code in each gang that it is in."""

    def said(hosts: Sequence[str], kind: str) -> tuple[Rank, ...]:
        if host not in hosts:
            return good(hosts, kind)
        rest = lost(f"rank 0 on {hosts[0]}: connection lost")
        return tuple(
            Rank(one, code, text) if one == host else Rank(one, IN_VAIN, rest) for one in hosts
        )

    return said


def test_sound_hosts_pass_in_groups_and_as_a_whole() -> None:
    results = found(4)
    names = [f"gpu-{i}" for i in range(1, 5)]
    assert {results["nccl.groups", name].status for name in names} == {Status.PASS}
    whole = results["nccl.cluster", "cluster/4 hosts"]
    assert (whole.status, whole.value, whole.limit) == (Status.PASS, 191.0, 180.0)
    for kind in ("all_gather", "reduce_scatter"):
        assert results["nccl.cluster", f"cluster/{kind} 4 hosts"].status is Status.PASS


def test_the_slow_host_is_named() -> None:
    def slow(hosts: Sequence[str], kind: str) -> tuple[Rank, ...]:
        return printed(hosts, rows(hosts, kind, 60.0 if "gpu-3" in hosts else 191.0))

    results = found(5, slow)
    assert [k for k, r in results.items() if r.status is Status.FAIL] == [("nccl.groups", "gpu-3")]
    assert results["nccl.cluster", "cluster/4 hosts"].status is Status.PASS


def test_wrong_values_fail_whatever_the_bandwidth() -> None:
    def wrong(hosts: Sequence[str], kind: str) -> tuple[Rank, ...]:
        return printed(hosts, rows(hosts, kind, 191.0, wrong=int("gpu-2" in hosts)))

    results = found(5, wrong)
    assert results["nccl.groups", "gpu-2"].status is Status.FAIL
    assert results["nccl.groups", "gpu-1"].status is Status.PASS


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (137, "its pod was ended by signal 9"),
        (None, "its program did not respond, and the other hosts waited in vain"),
    ],
    ids=["killed", "hangs"],
)
def test_the_host_that_stops_an_exchange_is_blamed_alone(code: int | None, cause: str) -> None:
    results = found(4, failing("gpu-2", code))
    bad = {
        t: r.cause
        for (i, t), r in results.items()
        if i == "nccl.groups" and r.status is Status.ERROR
    }
    assert bad == {"gpu-2": cause}
    assert results["nccl.groups", "gpu-1"].status is Status.PASS


def test_hosts_that_all_waited_in_vain_are_not_blamed_one_by_one() -> None:
    text = lost("rank 0 on gpu-1: timed out")
    said = together(
        of_kubernetes(view(2)),
        HostAccess(
            through(
                ("gpu-1", "gpu-2"),
                lambda hosts, _: tuple(Rank(host, IN_VAIN, text) for host in hosts),
            )
        ),
        between_pods.task(view(2), "x", "all_reduce", ("gpu-1", "gpu-2")),
        ("gpu-1", "gpu-2"),
    )
    one, culprit = between_pods.of_gang(said)
    assert (culprit, one.trouble) == ("", Trouble.FAILED)
    assert one.cause == "the hosts did not reach each other: rank 0 on gpu-1: timed out"


def test_a_busy_host_is_not_assessed_and_spoils_no_other() -> None:
    def busy(hosts: Sequence[str], kind: str) -> tuple[Rank, ...]:
        if "gpu-4" in hosts:
            raise ConnectionFailed(
                "Kubernetes did not place the pod on gpu-4: cordoned", "", "gpu-4"
            )
        return good(hosts, kind)

    results = found(4, busy)
    assert results["nccl.groups", "gpu-4"].status is Status.NOT_ASSESSED
    assert results["nccl.groups", "gpu-1"].status is Status.PASS
    assert results["nccl.cluster", "cluster/4 hosts"].status is Status.NOT_ASSESSED


def test_hosts_without_pytorch_are_not_assessed_with_the_remedy() -> None:
    head, end = answer("x", "", NO_TORCH).rstrip().rsplit("\n", 1)
    text = f"{head}\nappliance-said=no PyTorch on gpu-2\n{end}\n"
    results = found(4, failing("gpu-2", NO_TORCH, text))
    one = results["nccl.groups", "gpu-2"]
    assert (one.status, one.cause) == (Status.NOT_ASSESSED, "no PyTorch on gpu-2")
    assert not [r for r in results.values() if r.status is Status.ERROR]


def test_a_program_that_fails_by_itself_is_an_error_with_its_last_words() -> None:
    head, end = answer("x", "", 1).rstrip().rsplit("\n", 1)
    text = f"{head}\nappliance-said=CUDA error: out of memory\n{end}\n"
    one = found(4, failing("gpu-2", 1, text))["nccl.groups", "gpu-2"]
    assert (one.status, one.cause) == (Status.ERROR, "CUDA error: out of memory")
    assert one.fix


def test_only_the_first_host_prints_the_figures() -> None:
    """Another one cannot overrule them by printing more."""

    def lying(hosts: Sequence[str], kind: str) -> tuple[Rank, ...]:
        first, *others = printed(hosts, rows(hosts, kind, 60.0))
        false = rows(hosts, kind, 191.0) + " " * 4096
        return (first, *(Rank(one.host, 0, answer(one.host, false)) for one in others))

    assert found(2, lying)["nccl.groups", "gpu-1"].status is not Status.PASS


GOOD = rows(("gpu-1", "gpu-2"), "all_reduce", 191.0)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "incomplete"),
        (GOOD.rsplit("\n", 2)[0], "kind"),
        (GOOD.replace('"busbw": 191.0', '"busbw": 382.0'), "contradicts itself"),
        (GOOD.replace(f'"size": {2 * GIB}', f'"size": {GIB}'), "contradicts itself"),
        (GOOD.replace("all_reduce", "all_gather"), "it measured all_gather"),
        (GOOD.replace('"us": ', '"us": -'), "us"),
        (GOOD.replace('"wrong": 0', '"wrong": NaN'), "."),
    ],
)
def test_output_that_is_no_whole_run_is_refused(text: str, why: str) -> None:
    with pytest.raises(Unread, match=why):
        between_pods.read(text, "all_reduce")


def test_output_of_whole_runs_is_read() -> None:
    read = between_pods.read(GOOD, "all_reduce")
    assert (read.peak.size, read.peak.busbw, read.wrong) == (2 * GIB, 191.0, 0)
    assert read.hosts == {"gpu-1": 8, "gpu-2": 8}


def test_other_gpus_than_those_of_the_class_are_an_error() -> None:
    results = found(3, lambda hosts, kind: printed(hosts, rows(hosts, kind, 191.0, gpus=7)))
    said = {r.cause for (i, _), r in results.items() if i == "nccl.groups"}
    assert any("wrong GPUs: 7 of gpu-1" in cause for cause in said)
