"""The checks of stage storage: good storage, the fault each check is for, and the missing measurement."""

from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.facts import Drift, HostFacts
from appliance.models.result import CheckResult, Status
from appliance.models.site import Site
from appliance.stages.storage.checks import CHECKS, UNITS
from appliance.stages.storage.stage import STAGE
from tests.support.engine_fakes import receipt_of
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

GIB = 1 << 30
ACTIVE = {"load": "loaded", "active": "active"}
ABSENT = {"load": "not-found", "active": "inactive"}
PROFILE = profile_of(host={"scratch_disk_gib": 3500})
STORAGE = {
    "exports": [{"path": "/srv/data"}],
    "mounts": [{"export": "/srv/data", "at": "/data"}],
}


def site(**storage: Any) -> Site:
    """A storage host that serves /srv/data, and a GPU host."""
    return site_of("nas1", "gpu-1", storage={**STORAGE, **storage})


def filesystem(at: str, source: str, kind: str, **changes: Any) -> dict[str, Any]:
    """A file system of 4000 GiB, half full."""
    return {
        "at": at,
        "source": source,
        "type": kind,
        "size": 4000 * GIB,
        "free": 2000 * GIB,
        "inodes_free": 10**6,
        **changes,
    }


ROOT = filesystem("/", "/dev/sda1", "ext4")
SRV = filesystem("/srv", "/dev/sdb", "xfs")
BOUND = filesystem("/data", "/dev/sdb", "xfs")
MOUNTED = filesystem("/data", "10.0.0.10:/srv/data", "nfs4")
SCRATCH = filesystem("/scratch", "/dev/md127", "xfs")
OF = {"nas1": (ROOT, SRV, BOUND), "gpu-1": (ROOT, MOUNTED, SCRATCH)}


def facts(host: str, container: str = "", **changes: Any) -> HostFacts:
    """A good host."""
    server = (
        {UNITS[0]: ACTIVE, UNITS[1]: ABSENT} if host == "nas1" else dict.fromkeys(UNITS, ABSENT)
    )
    return facts_of(
        host,
        **{
            "os": {"container": container},
            "filesystems": OF[host],
            "units": server,
            "nfs_client": "kernel",
            **changes,
        },
    )


def judge(check_id: str, seen: HostFacts, site_: Site | None = None) -> list[CheckResult]:
    """The results of one check for the host the facts are of."""
    return said_by(check_id, View(PROFILE, site_ or site(), {seen.host: seen}), seen.host)


def one(check_id: str, seen: HostFacts, site_: Site | None = None) -> CheckResult:
    """The only result of one check."""
    (result,) = judge(check_id, seen, site_)
    return result


def test_stage_and_module_name_the_same_checks() -> None:
    assert {check.id for check in CHECKS} == set(STAGE.checks)


@pytest.mark.parametrize(
    ("check_id", "host"),
    [
        ("storage.server", "nas1"),
        ("storage.export", "nas1"),
        ("storage.client", "gpu-1"),
        ("storage.mount", "nas1"),
        ("storage.mount", "gpu-1"),
        ("storage.scratch", "gpu-1"),
        ("storage.scratch_size", "gpu-1"),
    ],
)
def test_good_storage_passes(check_id: str, host: str) -> None:
    assert one(check_id, facts(host)).status is Status.PASS


def test_ganesha_serves_as_well_as_the_kernel() -> None:
    units = {UNITS[0]: ABSENT, UNITS[1]: ACTIVE}
    assert one("storage.server", facts("nas1", units=units)).value == "nfs-ganesha.service"


def test_a_failed_server_is_named_with_where_it_says_why() -> None:
    units = {UNITS[0]: {"load": "loaded", "active": "failed"}, UNITS[1]: ABSENT}
    result = one("storage.server", facts("nas1", units=units))
    assert (result.status, result.cause) == (Status.FAIL, "nfs-server.service is failed")
    assert "journalctl -u nfs-server.service" in result.fix


def test_no_server_at_all_fails() -> None:
    result = one("storage.server", facts("nas1", units=dict.fromkeys(UNITS, ABSENT)))
    assert (result.status, result.cause) == (Status.FAIL, "no NFS server is installed")


def test_a_masked_server_is_not_called_absent() -> None:
    units = {UNITS[0]: {"load": "masked", "active": "inactive"}, UNITS[1]: ABSENT}
    result = one("storage.server", facts("nas1", units=units))
    assert (result.status, result.cause) == (Status.FAIL, "nfs-server.service is masked")


OFFLINE = {"load": "offline", "active": "unknown"}


@pytest.mark.parametrize("state", [{}, {UNITS[0]: OFFLINE, UNITS[1]: OFFLINE}])
def test_unread_units_are_neither_a_pass_nor_a_missing_server(state: dict[str, Any]) -> None:
    result = one("storage.server", facts("nas1", units=state, errors={"units": "no bus"}))
    assert (result.status, result.cause) == (Status.NOT_ASSESSED, "no bus")


def test_a_site_that_exports_nothing_has_no_server_to_judge() -> None:
    outside = site(exports=[], external=[{"server": "nas9", "path": "/srv/data"}])
    assert judge("storage.server", facts("nas1"), outside) == []
    assert judge("storage.export", facts("nas1"), outside) == []


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"read_only": True}, "/srv, which holds /srv/data, is read-only"),
        ({"free": 100 * GIB}, "/srv has 100 GiB left"),
        ({"inodes_free": 0}, "/srv has no inodes left"),
    ],
)
def test_an_export_that_cannot_take_more_fails(changes: dict[str, Any], cause: str) -> None:
    bad = filesystem("/srv", "/dev/sdb", "xfs", **changes)
    result = one("storage.export", facts("nas1", filesystems=(ROOT, bad)))
    assert (result.status, result.cause) == (Status.FAIL, cause)
    assert result.target == "nas1/srv/data"


def test_btrfs_counts_no_inodes() -> None:
    tree = filesystem("/srv", "/dev/sdb", "btrfs", inodes_free=0)
    assert one("storage.export", facts("nas1", filesystems=(tree,))).status is Status.PASS


def test_an_export_on_an_unknown_file_system_is_not_assessed() -> None:
    seen = facts("nas1", filesystems=(), errors={"filesystems": "/proc: not mounted"})
    result = one("storage.export", seen)
    assert (result.status, result.cause) == (Status.NOT_ASSESSED, "/proc: not mounted")


def test_a_kernel_without_an_nfs_client_fails_on_a_machine() -> None:
    assert one("storage.client", facts("gpu-1", nfs_client="libnfs")).status is Status.FAIL
    assert one("storage.client", facts("gpu-1", nfs_client="")).status is Status.FAIL


def test_libnfs_is_a_client_in_a_container() -> None:
    result = one("storage.client", facts("gpu-1", "systemd-nspawn", nfs_client="libnfs"))
    assert (result.status, result.value) == (Status.PASS, "libnfs")
    assert one("storage.client", facts("gpu-1", "lxc", nfs_client="")).status is Status.FAIL


def test_an_unread_client_is_not_assessed() -> None:
    seen = facts("gpu-1", nfs_client="", errors={"nfs": "modprobe: not installed"})
    assert one("storage.client", seen).status is Status.NOT_ASSESSED


def test_a_missing_mount_names_where_it_should_come_from() -> None:
    result = one("storage.mount", facts("gpu-1", filesystems=(ROOT,)))
    assert (result.status, result.target) == (Status.FAIL, "gpu-1/data")
    assert result.cause == "/data is not mounted from 10.0.0.10:/srv/data"
    assert "data.mount" in result.fix


def silent(at: str, text: str) -> dict[str, Any]:
    """What the probe says of a file system that gave no answer."""
    problem = {"area": "filesystems", "text": text, "at": at}
    return {"errors": {"filesystems": text}, "problems": [problem]}


def test_a_mount_that_hangs_is_a_failure_with_its_own_words() -> None:
    hung = silent("/data", "/data does not answer within 2 s")
    result = one("storage.mount", facts("gpu-1", filesystems=(ROOT,), **hung))
    assert result.status is Status.FAIL
    assert "does not answer" in result.cause


def test_silence_of_one_file_system_neither_blames_nor_excuses_another() -> None:
    other = silent("/database", "/data: /database does not answer within 2 s")
    seen = facts("gpu-1", filesystems=(ROOT,), **other)
    assert one("storage.mount", seen).cause == "/data is not mounted from 10.0.0.10:/srv/data"
    assert one("storage.scratch", seen).cause == "nothing is mounted at /scratch"


def test_scratch_whose_disk_is_dead_fails_with_its_own_words() -> None:
    dead = silent("/scratch", "/scratch: Input/output error")
    seen = facts("gpu-1", filesystems=(ROOT,), **dead)
    result = one("storage.scratch", seen)
    assert (result.status, result.cause) == (Status.FAIL, "/scratch: Input/output error")
    assert "journalctl -k" in result.fix
    assert one("storage.scratch_size", seen).status is Status.NOT_ASSESSED


def test_an_unread_mount_table_is_not_assessed() -> None:
    seen = facts("gpu-1", filesystems=(), errors={"filesystems": "mountinfo: permission denied"})
    assert one("storage.mount", seen).status is Status.NOT_ASSESSED
    assert one("storage.scratch", seen).status is Status.NOT_ASSESSED
    assert one("storage.scratch_size", seen).status is Status.NOT_ASSESSED


def test_a_mount_from_elsewhere_fails() -> None:
    old = filesystem("/data", "10.0.0.9:/old", "nfs4")
    result = one("storage.mount", facts("gpu-1", filesystems=(ROOT, old)))
    assert (result.status, result.value) == (Status.FAIL, "10.0.0.9:/old")
    assert result.limit == "10.0.0.10:/srv/data"


def test_the_server_needs_its_bind_mount_unless_the_paths_are_the_same() -> None:
    alone = facts("nas1", filesystems=(ROOT, SRV))
    assert one("storage.mount", alone).status is Status.FAIL
    same = site(mounts=[{"export": "/srv/data", "at": "/srv/data"}])
    assert one("storage.mount", alone, same).value == "local"


def test_what_hides_the_servers_own_export_fails() -> None:
    other = filesystem("/data", "/dev/sdz1", "ext4")
    result = one("storage.mount", facts("nas1", filesystems=(ROOT, SRV, other)))
    assert (result.status, result.value, result.limit) == (Status.FAIL, "/dev/sdz1", "/dev/sdb")
    assert result.fix == "when it is not used: systemctl restart 'data.mount' on nas1"


def test_a_container_without_a_client_is_not_assessed_and_not_blamed() -> None:
    seen = facts("gpu-1", "systemd-nspawn", filesystems=(ROOT,), nfs_client="libnfs")
    result = one("storage.mount", seen)
    assert (result.status, result.required) == (Status.NOT_ASSESSED, False)
    assert "storage.roundtrip" in result.cause


def test_an_external_mount_is_judged_by_its_own_server() -> None:
    outside = site(exports=[], external=[{"server": "nas9", "path": "/srv/data"}])
    here = filesystem("/data", "nas9:/srv/data", "nfs4")
    assert one("storage.mount", facts("gpu-1", filesystems=(here,)), outside).status is Status.PASS
    assert one("storage.mount", facts("gpu-1"), outside).status is Status.FAIL


@pytest.mark.parametrize(
    ("found", "cause"),
    [
        ((ROOT,), "nothing is mounted at /scratch"),
        ((filesystem("/scratch", "/dev/md0", "xfs", read_only=True),), "/scratch is read-only"),
        ((filesystem("/scratch", "/dev/md0", "xfs", free=GIB),), "/scratch has 1 GiB left"),
        (
            (filesystem("/scratch", "/dev/md0", "xfs", inodes_free=0),),
            "/scratch has no inodes left",
        ),
        (
            (filesystem("/scratch", "nas9:/x", "nfs4"),),
            "/scratch is nas9:/x (nfs4), not a disk of this host",
        ),
    ],
)
def test_scratch_that_cannot_be_used_fails(found: tuple[dict[str, Any], ...], cause: str) -> None:
    result = one("storage.scratch", facts("gpu-1", filesystems=found))
    assert (result.status, result.cause) == (Status.FAIL, cause)


def test_the_scratch_of_a_simulated_host_is_of_no_class() -> None:
    small = filesystem("/scratch", "/dev/vda2", "ext4", size=10 * GIB)
    seen = facts("gpu-1", filesystems=(small,), simulated=("gpu", "fabric", "host"))
    result = one("storage.scratch_size", seen)
    assert (result.status, result.required) == (Status.NOT_ASSESSED, False)
    assert "the host is simulated" in result.cause
    gpus = seen.model_copy(update={"simulated": ("gpu", "fabric")})
    assert one("storage.scratch_size", gpus).status is Status.FAIL


def test_scratch_smaller_than_the_class_fails() -> None:
    exact = filesystem("/scratch", "/dev/md0", "xfs", size=3500 * GIB)
    assert one("storage.scratch_size", facts("gpu-1", filesystems=(exact,))).status is Status.PASS
    small = filesystem("/scratch", "/dev/md0", "xfs", size=1000 * GIB)
    result = one("storage.scratch_size", facts("gpu-1", filesystems=(small,)))
    assert (result.status, result.value, result.limit) == (Status.FAIL, 1000, 3500)


@pytest.mark.parametrize(
    ("source", "kind", "cause"),
    [
        ("/dev/sda1", "ext4", "/scratch is on the system disk"),
        ("nas9:/x", "nfs4", "/scratch is nfs4"),
    ],
)
def test_room_of_another_disk_is_not_the_classes_scratch(
    source: str, kind: str, cause: str
) -> None:
    found = facts("gpu-1", filesystems=(ROOT, filesystem("/scratch", source, kind)))
    result = one("storage.scratch_size", found)
    assert result.status is Status.FAIL
    assert result.cause.startswith(cause)


def test_a_file_system_that_does_not_tell_its_size_is_not_assessed() -> None:
    sizeless = filesystem("/scratch", "x", "9p", size=0)
    seen = facts("gpu-1", "systemd-nspawn", filesystems=(ROOT, sizeless))
    assert one("storage.scratch", seen).status is Status.NOT_ASSESSED


def test_size_of_a_containers_scratch_is_not_judged() -> None:
    result = one("storage.scratch_size", facts("gpu-1", "systemd-nspawn"))
    assert (result.status, result.required) == (Status.NOT_ASSESSED, False)


def test_a_site_without_scratch_has_none_to_judge() -> None:
    assert judge("storage.scratch", facts("gpu-1"), site(scratch=None)) == []
    assert judge("storage.scratch_size", facts("gpu-1"), site(scratch=None)) == []


@pytest.mark.parametrize(
    ("state", "cause", "fix"),
    [
        ("hung", "does not answer (hung): every client waits", "systemctl restart nfs"),
        ("silent", "nothing reaches its port 2049: a firewall of nas1", "nft list ruleset"),
    ],
)
def test_a_server_that_runs_and_does_not_answer_fails(state: str, cause: str, fix: str) -> None:
    own = {"name": "nas1", "address": "10.0.0.10", "own": True}
    seen = {"peers": [{**own, "ports": [{"port": 2049, "state": state}]}]}
    result = one("storage.server", facts("nas1", neighbours=seen))
    assert result.status is Status.FAIL
    assert cause in result.cause
    assert fix in result.fix


def test_a_server_that_answers_passes() -> None:
    own = {"name": "nas1", "address": "10.0.0.10", "own": True}
    seen = {"peers": [{**own, "ports": [{"port": 2049, "state": "open"}]}]}
    assert one("storage.server", facts("nas1", neighbours=seen)).status is Status.PASS


@pytest.mark.parametrize("gone", ["/srv/data", "/srv/data/home"])
def test_a_folder_of_an_export_that_is_gone_fails_and_is_not_created_again(gone: str) -> None:
    """The disk of the export is not mounted, or somebody moved the folder: an empty one would hide that."""
    drift = {"kind": "directory", "name": gone, "expected": "present", "found": "missing"}
    lost = receipt_of("storage", "f").model_copy(update={"drift": (Drift(**drift),)})
    result = one("storage.export", facts("nas1", receipts={"storage": lost}))
    assert result.cause == f"{gone} no longer exists, and with it the data of users"
    assert result.fix.endswith(f"Only to begin with an empty one: mkdir -p {gone}")


@pytest.mark.parametrize(
    "change", [{"name": "/srv/other"}, {"found": "mode 0700"}, {"kind": "home"}]
)
def test_another_change_of_an_export_is_drift_alone(change: dict[str, str]) -> None:
    drift = {"kind": "directory", "name": "/srv/data", "expected": "present", "found": "missing"}
    changed = receipt_of("storage", "f").model_copy(update={"drift": (Drift(**{**drift, **change}),)})  # fmt: skip
    assert one("storage.export", facts("nas1", receipts={"storage": changed})).status is Status.PASS
