"""Hosts of two classes on one site: each is judged by its own, and none by the other's."""

from dataclasses import replace

import pytest

from appliance.benchmarks import BENCHMARKS
from appliance.bmc.checks.parts import judge_memory
from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.models.bmc import BmcFacts
from appliance.models.facts import HostFacts
from appliance.models.profile import Limit, Profile
from appliance.models.result import CheckResult, Judgement, Status
from appliance.models.site import Site
from appliance.stages.catalog import CHECKS
from appliance.stages.fabric.checks.subnet import gpu_hosts, outside
from appliance.stages.fabric.facts import Port
from tests.support.facts import facts_of, gpus_of
from tests.support.profiles import profile_of
from tests.support.sites import site_of

BALANCED, HPC = load_profile("balanced"), load_profile("hpc")
CARDS, BOARDS = "NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-80GB"
CONTROL = profile_of(name="control", host={"memory_gib": 60, "cores": 16}).model_copy(
    update={"hardware": profile_of(host={"memory_gib": 60, "cores": 16}).hardware}
)


def mixed(**classes: Profile) -> Site:
    """A head, two build hosts of class balanced and two train hosts of class hpc."""
    hosts = ("head", "gpu-build-1", "gpu-build-2", "gpu-train-1", "gpu-train-2")
    site = site_of(*hosts)
    return site.with_profiles(
        {name: classes.get(name, HPC if "train" in name else BALANCED) for name in hosts}
    )


def view(**changes: HostFacts) -> View:
    """All is as its class wants it, but for what a test changes."""
    known = {
        host.name: facts(host.name) for host in mixed().hosts if host.name.startswith("gpu")
    } | {facts.host: facts for facts in changes.values()}
    return View(BALANCED, mixed(), known)


def facts(host: str, gpus: int | None = None, **changes: object) -> HostFacts:
    """A host of the class its name tells."""
    train = "train" in host
    count = gpus if gpus is not None else 8 if train else 4
    model = BOARDS if train else CARDS
    ids = [f"0000:{index + 1:02x}:00.0" for index in range(count)]
    kind, number, rate = ("InfiniBand", 8, 200) if train else ("Ethernet", 2, 100)
    ports = [
        Port(
            device=f"mlx5_{index}",
            port=1,
            state="4: ACTIVE",
            physical="5: LinkUp",
            rate=rate,
            link_layer=kind,
        )
        for index in range(number)
    ]
    told: dict[str, object] = {
        "gpus": gpus_of(model, count),
        "pci_gpus": count,
        "pci_gpu_ids": ids,
        "ports": ports,
        "memory": {"total": (980 if train else 500) << 30, "available": 1 << 33},
    }
    return facts_of(host, **(told | changes))


def said(check: str, at: View, host: str) -> list[CheckResult]:
    """What a check says of a host of the site."""
    one = next(c for c in CHECKS if c.id == check)
    return one.results(at, at.site.host(host), at.facts[host])  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("host", "gpus", "status"),
    [
        ("gpu-build-1", 4, Status.PASS),
        ("gpu-build-1", 3, Status.FAIL),
        ("gpu-train-1", 8, Status.PASS),
        ("gpu-train-1", 7, Status.FAIL),
        # What is whole in one class is not in the other.
        ("gpu-train-1", 4, Status.FAIL),
    ],
)
def test_gpus_are_counted_by_the_host_s_own_class(host: str, gpus: int, status: Status) -> None:
    found = said("gpu.count", view(changed=facts(host, gpus)), host)
    assert {result.status for result in found} == {status}
    whole = 8 if "train" in host else 4
    sources = {(r.limit, r.limit_source) for r in found if r.host == host and not r.parts}
    assert sources <= {(whole, f"profile {'hpc' if whole == 8 else 'balanced'}")}


def test_where_a_gpu_is_missing_is_told_by_hosts_of_its_class() -> None:
    short = facts("gpu-train-1", 7)
    (found,) = said("gpu.count", view(changed=short), "gpu-train-1")
    assert "0000:08:00.0" in found.cause


@pytest.mark.parametrize("check", ["gpu.model", "fabric.ports", "fabric.rate", "base.memory_size"])
@pytest.mark.parametrize("host", ["gpu-build-1", "gpu-train-2"])
def test_a_host_as_its_class_has_it_is_good(check: str, host: str) -> None:
    assert {result.status for result in said(check, view(), host)} == {Status.PASS}


@pytest.mark.parametrize("check", ["gpu.model", "fabric.ports", "base.memory_size"])
def test_a_host_as_the_other_class_has_it_is_not(check: str) -> None:
    other = facts("gpu-build-1").model_copy(update={"host": "gpu-train-1"})
    found = said(check, view(changed=other), "gpu-train-1")
    assert Status.FAIL in {result.status for result in found}
    assert {result.limit_source for result in found} == {"profile hpc"}


def test_limits_are_those_of_the_class_unless_the_site_has_its_own() -> None:
    own = Limit(value=3, unit="GB/s", source="contract")
    hpc = HPC.model_copy(update={"limits": {**HPC.limits, "fio.scratch_read": own}})
    site = mixed(**{"gpu-train-1": hpc, "gpu-train-2": hpc})
    seen = View(BALANCED, site, {})
    assert seen.of("gpu-build-1").limit("fio.scratch_read") is None
    assert seen.of("gpu-train-1").limit("fio.scratch_read") == own
    everywhere = Limit(value=9, unit="GB/s", source="site")
    site = site.model_copy(update={"limits": {"fio.scratch_read": everywhere}})
    assert {View(BALANCED, site, {}).of(h.name).limit("fio.scratch_read") for h in site.hosts} == {
        everywhere
    }


def test_hosts_without_infiniband_are_no_part_of_its_subnet() -> None:
    assert outside(view()) == {"gpu-build-1", "gpu-build-2"}
    assert list(gpu_hosts(view())) == ["gpu-train-1", "gpu-train-2"]
    assert outside(View(HPC, site_of("head", "gpu-1"), {})) == frozenset()


def test_a_view_of_a_class_has_its_gpu_hosts_and_those_without_gpus() -> None:
    of_build, of_train = view().by_class()
    assert (of_build.profile.name, of_train.profile.name) == ("balanced", "hpc")
    assert [h.name for h in of_train.site.hosts] == ["head", "gpu-train-1", "gpu-train-2"]
    assert set(of_build.facts) == {"gpu-build-1", "gpu-build-2"}
    alone = View(HPC, site_of("head", "gpu-1"), {})
    assert alone.by_class() == (alone,)


def test_gates_are_those_of_each_class_on_its_own_hosts() -> None:
    nccl, dcgm = (next(b for b in BENCHMARKS if b.name == name) for name in ("nccl", "dcgm"))
    (gate,) = (gate for gate in nccl.requirements(view()) if gate.id == "nccl.cluster")
    assert (gate.profile, gate.title.endswith(", hpc")) == ("hpc", True)
    assert {host for target in gate.targets for host in target.hosts} == {
        "gpu-train-1",
        "gpu-train-2",
    }
    gates = {gate.profile: gate for gate in dcgm.requirements(view())}
    assert {name: len(gate.targets) for name, gate in gates.items()} == {
        "balanced": 2 * 4,
        "hpc": 2 * 8,
    }
    assert {g.profile for g in dcgm.requirements(View(HPC, site_of("head", "gpu-1"), {}))} == {""}


@pytest.mark.parametrize(("memory", "status"), [(62, Status.PASS), (31, Status.FAIL)])
def test_a_control_host_with_a_class_is_judged_by_it(memory: int, status: Status) -> None:
    site = site_of({"name": "head", "class": "control"}, "gpu-1")
    site = site.with_profiles({"head": CONTROL, "gpu-1": HPC})
    told = facts_of("head", memory={"total": memory << 30, "available": 1 << 30})
    (found,) = said("base.memory_size", View(HPC, site, {"head": told}), "head")
    assert (found.status, found.limit, found.limit_source) == (status, 60, "profile control")


def test_a_control_host_without_a_class_is_held_to_none() -> None:
    site = site_of("head", "gpu-1")
    told = facts_of("head", memory={"total": 1 << 30, "available": 1 << 29})
    assert said("base.memory_size", View(HPC, site, {"head": told}), "head") == []


def test_a_controller_is_held_to_the_class_of_its_host_too() -> None:
    site = site_of({"name": "head", "class": "control"}, "gpu-1", "nas-1")
    site = site.with_profiles({"head": CONTROL, "gpu-1": HPC, "nas-1": HPC})
    seen = View(HPC, site, {})
    found = _memory(seen, "head", 31)
    assert [(one.status, one.told["limit"]) for one in found] == [(Status.FAIL, 60)]
    assert _memory(seen, "nas-1", 31) == []


def _memory(seen: View, host: str, gib: int) -> list[Judgement]:
    empty = BmcFacts.model_validate({"host": host, "taken": "2026-11-20T12:00:00Z", "seconds": 1.0})
    machine = empty.machine.model_copy(update={"memory_gib": gib, "power": "On"})
    told = empty.model_copy(update={"machine": machine})
    return list(judge_memory(seen.of(host), seen.site.host(host), told))


def test_one_view_is_made_of_each_class() -> None:
    seen = view()
    assert seen.of("gpu-train-1") is seen.of("gpu-train-2")
    assert seen.of("gpu-build-1") is seen
    assert replace(seen).of("gpu-train-1").profile_of("gpu-build-1") is BALANCED
