"""The adapters' driver: the wanted one, another one, or nothing known of it."""

from dataclasses import replace
from typing import Any

from appliance.checks.check import View
from appliance.models.result import Status
from appliance.models.site import Role
from appliance.stages.context import Variables
from appliance.stages.fabric.site import FabricOptions
from appliance.stages.fabric.stage import changes_driver, disturbs
from tests.support.engine_fakes import receipt_of
from tests.support.fabric_facts import facts, judge, one, profile, view

ID = "fabric.driver"


def having(version: str | None, package: str = "", driver: str = "doca", **more: Any) -> View:
    """gpu-1 has this mlx5_core loaded (None: none at all) and this package; the site wants DOCA-OFED 3.1, or not."""
    receipt = receipt_of("fabric", "f", versions={"doca-ofed": package} if package else {})
    modules = {} if version is None else {"mlx5_core": {"version": version}}
    own = facts("gpu-1", modules=modules, receipts={"fabric": receipt}, **more)
    plain = profile()
    software = plain.software.model_copy(update={"doca_ofed": "3.1"})
    seen = view(own, profile_=plain.model_copy(update={"software": software}))
    fabric = FabricOptions.model_validate({"driver": driver})
    return replace(seen, site=seen.site.model_copy(update={"fabric": fabric}))


def test_the_wanted_driver_is_good() -> None:
    doca = one(ID, having("25.07-0.9.7", "3.1.0-091000"))
    assert (doca.status, doca.value) == (Status.PASS, "25.07-0.9.7")
    assert one(ID, having("", driver="inbox")).status is Status.PASS


def test_the_kernels_own_in_place_of_doca_another_release_or_none_fails() -> None:
    assert "the kernel's own driver is loaded" in one(ID, having("", "3.1.0-091000")).cause
    assert "3.2.1-044000 is installed, not 3.1" in one(ID, having("25.10-1", "3.2.1-044000")).cause
    assert "mlx5_core is not loaded" in one(ID, having(None)).cause
    assert {one(ID, having(v)).status for v in ("", None)} == {Status.FAIL}


def test_a_release_is_judged_as_it_is_now_and_not_as_the_stage_left_it_before() -> None:
    now = ({"kind": "package", "name": "doca-ofed", "version": "3.1.0-091000"},)
    assert one(ID, having("25.07-0.9.7", "2.9.1-1", resources=now)).status is Status.PASS
    gone = ({"kind": "package", "name": "doca-ofed", "version": None},)
    assert one(ID, having("25.07-0.9.7", "3.1.0-091000", resources=gone)).status is not Status.PASS


def test_a_driver_of_a_release_nobody_knows_is_not_assessed() -> None:
    result = one(ID, having("25.07-0.9.7"))
    assert (result.status, result.required) == (Status.NOT_ASSESSED, True)


def test_doca_that_was_to_go_fails_and_somebody_elses_is_a_warning() -> None:
    ours = one(ID, having("25.07-0.9.7", "3.1.0-091000", driver="inbox"))
    assert (ours.status, ours.value) == (Status.FAIL, "25.07-0.9.7")
    theirs = one(ID, having("25.07-0.9.7", driver="inbox"))
    assert (theirs.status, "not managed" in theirs.cause) == (Status.WARN, True)


def test_other_adapters_and_containers_are_not_assessed_and_simulated_ones_not_spoken_of() -> None:
    other = one(ID, having(None, driver="inbox"))
    assert (other.status, other.required) == (Status.NOT_ASSESSED, False)
    assert judge(ID, having(None, driver="inbox", simulated=("fabric",))) == []
    system = facts("gpu-1").os.model_copy(update={"container": "podman"})
    assert one(ID, having("", os=system)).status is Status.NOT_ASSESSED


def test_a_plan_names_the_reboot_a_change_of_driver_takes() -> None:
    def reboots(seen: View, wanted: str, release: str = "3.1") -> bool:
        host = seen.site.host("gpu-1")
        variables: Variables = {"fabric_driver": wanted, "fabric_doca_release": release}
        return changes_driver(host, seen.facts["gpu-1"], variables)

    bare, done = having(""), having("25.07-0.9.7", "3.1.0-091000")
    assert reboots(bare, "doca")
    assert not reboots(done, "doca")
    assert reboots(done, "doca", "3.2")
    assert reboots(done, "inbox")
    assert not reboots(bare, "inbox")
    assert not reboots(having("25.07-0.9.7"), "inbox")
    assert not changes_driver(bare.site.host("gpu-1"), None, {"fabric_driver": "doca"})


def test_a_gpu_host_is_freed_of_work_before_it_reboots_and_a_control_host_has_none() -> None:
    variables: Variables = {"fabric_driver": "doca", "fabric_doca_release": "3.1"}
    seen = having("")
    host, bare = seen.site.host("gpu-1"), seen.facts["gpu-1"]
    working = bare.model_copy(update={"receipts": {"slurm": receipt_of("slurm", "f")}})
    assert disturbs(host, working, variables)
    assert not disturbs(host, bare, variables)
    silent = {"errors": {"receipts": "no answer within 20 s"}, "receipts": {}}
    mute = bare.model_copy(update=silent)
    assert disturbs(host, mute, variables)
    assert not disturbs(host, working, {"fabric_driver": "inbox"})
    assert not disturbs(host.model_copy(update={"roles": (Role.CONTROL,)}), working, variables)
