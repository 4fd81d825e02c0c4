"""Whether users can work on a host: shared folders, devices, homes, logins."""

from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.facts_host import (
    Access,
    ClosedAccount,
    Crowd,
    Home,
    Lookup,
    Proxy,
    Spot,
    TakenNumber,
    Variable,
)
from appliance.models.result import CheckResult, Status
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

GIB = 1 << 30
TMP = Spot(at="/tmp", kind="folder", mode=0o1777, owner="root", group="root")
SHM = TMP.model_copy(update={"at": "/dev/shm", "size": GIB, "free": GIB, "inodes_free": 1000})
NULL = Spot(at="/dev/null", kind="device", mode=0o666, owner="root", group="root")
GPUS = tuple(
    Spot(at=f"/dev/nvidia{n}", kind="gpu", mode=0o666, owner="root", group="root") for n in range(8)
)
CONTROL = Spot(at="/dev/nvidiactl", kind="gpu", mode=0o666, owner="root", group="root")
SOUND = (TMP, SHM, NULL, CONTROL, *GPUS)
BEA = {"name": "bea", "uid": 2001, "keys": ["ssh-ed25519 " + "A" * 68]}


def judged(*spots: Spot, site: dict[str, Any] | None = None, **given: Any) -> list[CheckResult]:
    access = Access(**{"spots": spots or SOUND, "homes": (), **given})
    view = View(
        profile_of(), site_of("gpu-1", **site or {}), {"gpu-1": facts_of("gpu-1", access=access)}
    )
    return said_by("base.access", view)


def only(found: list[CheckResult]) -> CheckResult:
    (one,) = found
    return one


def but(spot: Spot, **changes: Any) -> Spot:
    return spot.model_copy(update=changes)


def test_a_sound_host_is_open_to_users() -> None:
    assert only(judged()).status is Status.PASS


def test_a_host_that_was_not_looked_at_is_not_assessed() -> None:
    seen = View(profile_of(), site_of("gpu-1"), {"gpu-1": facts_of("gpu-1")})
    assert only(said_by("base.access", seen)).status is Status.NOT_ASSESSED


@pytest.mark.parametrize(
    ("spot", "cause", "fix"),
    [
        (but(TMP, mode=0o755), "users cannot write there", "on gpu-1: chmod 1777 /tmp"),
        (but(TMP, mode=0o777), "remove each other's files", "chmod 1777 /tmp"),
        (but(TMP, closed_by="/"), "/ denies access to users", "chmod o+x /"),
        (but(TMP, kind="missing"), "/tmp does not exist", "mkdir -m 1777 /tmp"),
        (
            but(NULL, kind="other"),
            "/dev/null must be a directory or a device file",
            "mknod -m 0666 /dev/null c 1 3",
        ),
        (but(NULL, mode=0o600), "cannot open this device", "chmod 0666 /dev/null"),
        (but(SHM, inodes_free=3), "/dev/shm has no inodes left", "du -xah /dev/shm"),
    ],
)
def test_what_keeps_users_from_work_is_named(spot: Spot, cause: str, fix: str) -> None:
    found = only(judged(spot))
    assert found.status is Status.FAIL
    assert cause in found.cause
    assert fix in found.fix


def test_a_full_shared_memory_names_what_fills_it() -> None:
    full = but(SHM, free=GIB // 100, largest=f"{GIB} bea /dev/shm/nccl old")
    found = only(judged(full))
    assert found.status is Status.FAIL
    assert (
        "/dev/shm has 1 % of 1024 MiB left; /dev/shm/nccl old of bea takes 1024 MiB" in found.cause
    )
    assert "rm -r '/dev/shm/nccl old'" in found.fix


def test_a_nearly_full_one_warns_and_a_limit_of_the_site_counts() -> None:
    nearly = but(SHM, free=GIB // 14)
    assert only(judged(nearly)).status is Status.WARN
    limit = {"limits": {"base.access": {"value": 8, "unit": "% free", "source": "ours"}}}
    assert only(judged(nearly, site=limit)).status is Status.FAIL


def test_gpus_closed_to_users_are_one_result() -> None:
    found = only(judged(TMP, *(but(gpu, mode=0o600) for gpu in GPUS)))
    assert found.cause.startswith("/dev/nvidia0 and 7 more: mode 0600")
    assert "chmod 0666 /dev/nvidia0 /dev/nvidia1" in found.fix


def test_the_drivers_own_mode_for_its_devices_counts() -> None:
    grouped = tuple(but(gpu, mode=0o660, group="gpu") for gpu in GPUS)
    assert only(judged(*grouped, device_mode=0o660)).status is Status.PASS
    assert only(judged(*grouped)).status is Status.FAIL


def test_a_device_of_a_group_is_somebodys_choice() -> None:
    verbs = but(NULL, at="/dev/infiniband/uverbs0", mode=0o660, group="rdma")
    assert only(judged(verbs)).status is Status.PASS
    assert only(judged(but(verbs, group="root"))).status is Status.FAIL


def test_closed_logins_are_named() -> None:
    found = only(judged(nologin=("/etc/nologin",)))
    assert found.cause == "/etc/nologin exists: only root can log in"


@pytest.mark.parametrize(
    ("trouble", "fix"),
    [
        ("belongs to root", "chown bea: /home/bea"),
        ("is not there", "mkhomedir_helper bea"),
        ("cannot be reached: /home is closed to users", "chmod o+x /home"),
    ],
)
def test_a_home_that_is_not_its_users_is_named(trouble: str, fix: str) -> None:
    site = {"base": {"users": [BEA]}}
    found = only(judged(site=site, homes=(Home(user="bea", at="/home/bea", trouble=trouble),)))
    assert found.cause == f"the home of bea, /home/bea, {trouble}"
    assert fix in found.fix


@pytest.mark.parametrize(
    ("trouble", "fix"),
    [
        ("has expired", "chage -E -1 bea"),
        ("must change its password first", "chage -d -1 -M -1 bea"),
    ],
)
def test_an_account_that_pam_refuses_is_named(trouble: str, fix: str) -> None:
    found = only(judged(closed_accounts=(ClosedAccount(user="bea", trouble=trouble),)))
    assert found.target == "gpu-1/account bea"
    assert f"the account bea {trouble}" in found.cause
    assert found.fix.endswith(fix)


@pytest.mark.parametrize(
    ("kind", "target", "fix"),
    [("uid", "gpu-1/account tom", "userdel -f tom"), ("gid", "gpu-1/group tom", "groupdel tom")],
)
def test_another_account_with_a_number_of_the_site_is_named(
    kind: str, target: str, fix: str
) -> None:
    found = only(judged(taken=(TakenNumber(kind=kind, number=2001, by="tom", wanted="bea"),)))
    assert (found.status, found.target) == (Status.FAIL, target)
    assert f"has {kind} 2001, which is that of bea" in found.cause
    assert fix in found.fix


def test_of_containers_only_the_file_server_has_the_homes_of_a_server() -> None:
    shared = {"exports": [{"path": "/srv"}], "mounts": [{"export": "/srv", "at": "/data"}]}
    site = {"base": {"users": [BEA], "homes": "/data/home"}, "storage": shared}
    lost = (Home(user="bea", at="/data/home/bea", trouble="belongs to root"),)
    for host, roles, bad in (("head", ["storage"], True), ("gpu-1", ["gpu"], False)):
        facts = facts_of(host, access=Access(spots=SOUND, homes=lost))
        container = facts.model_copy(
            update={"os": facts.os.model_copy(update={"container": "nspawn"})}
        )
        view = View(
            profile_of(), site_of({"name": host, "roles": roles}, **site), {host: container}
        )
        assert [one.status is Status.FAIL for one in said_by("base.access", view)] == [bad]


def test_a_proxy_that_takes_no_connection_is_named_with_the_file_that_sets_it() -> None:
    lost = Proxy(at="/etc/environment", name="https_proxy", server="192.0.2.1:3128")
    found = only(judged(proxies=(lost,)))
    assert "sets https_proxy for every login to 192.0.2.1:3128" in found.cause
    assert "sed -i '/https_proxy=/d' /etc/environment" in found.fix


def test_accounts_that_are_looked_up_elsewhere_are_told() -> None:
    found = only(judged(lookups=(Lookup(name="group", says="ldap"),)))
    assert found.target == "gpu-1/nsswitch.conf,group"
    assert found.fix == "on gpu-1: sed -i 's/^group:/& files/' /etc/nsswitch.conf"


def test_sudo_without_its_bit_makes_nobody_root() -> None:
    spot = but(NULL, at="/usr/bin/sudo", kind="setuid", mode=0o755)
    found = only(judged(*SOUND, spot))
    assert "is not setuid root" in found.cause
    assert found.fix == "on gpu-1: chown root: /usr/bin/sudo; chmod 4755 /usr/bin/sudo"


@pytest.mark.parametrize(
    ("limits", "container", "bad"),
    [
        ({"open files": 64}, None, ["slurmd,open files"]),
        ({"open files": 20_000, "locked memory": 8_388_608}, "nspawn", []),
        ({"locked memory": 65_536}, None, ["slurmd,locked memory"]),
        ({}, None, []),
    ],
)
def test_limits_that_jobs_inherit_from_slurmd_are_judged(
    limits: dict[str, int], container: str | None, bad: list[str]
) -> None:
    facts = facts_of("gpu-1", access=Access(spots=SOUND, homes=(), job_limits=limits))
    facts = facts.model_copy(update={"os": facts.os.model_copy(update={"container": container})})
    view = View(profile_of(), site_of("gpu-1"), {"gpu-1": facts})
    found = [one for one in said_by("base.access", view) if one.status is Status.FAIL]
    assert [one.target.partition("/")[2] for one in found] == bad
    assert all("systemctl restart slurmd" in one.fix for one in found)


def test_homes_that_gave_no_answer_are_not_assessed() -> None:
    found = only(judged(site={"base": {"users": [BEA]}}, homes=None))
    assert found.status is Status.NOT_ASSESSED


@pytest.mark.parametrize(
    ("spot", "cause", "fix"),
    [
        (
            but(NULL, at="/etc/passwd", kind="common", mode=0o600),
            "users' programs cannot read it",
            "on gpu-1: chmod o+rX /etc/passwd",
        ),
        (
            but(NULL, at="/usr/bin/srun", kind="program", mode=0o700),
            "users cannot run it",
            "on gpu-1: chmod 0755 /usr/bin/srun",
        ),
        (but(NULL, at="/usr/bin/srun", kind="empty"), "is empty", "apt-get install --reinstall"),
    ],
)
def test_what_users_read_and_run_is_named_where_it_is_closed(
    spot: Spot, cause: str, fix: str
) -> None:
    found = only(judged(spot))
    assert found.status is Status.FAIL
    assert cause in found.cause
    assert fix in found.fix


@pytest.mark.parametrize(
    ("startups", "status"),
    [
        (None, Status.PASS),
        ((2, 128, 512), Status.PASS),
        ((12, 128, 512), Status.WARN),
        ((12, 10, 100), Status.FAIL),
    ],
)
def test_logins_that_do_not_end_are_counted(
    startups: tuple[int, ...] | None, status: Status
) -> None:
    found = only(judged(startups=startups))
    assert found.status is status
    if startups and status is not Status.PASS:
        assert found.cause.startswith("12 ssh logins have started and do not end")


def test_a_crowd_of_processes_is_named_with_its_owner_and_end() -> None:
    crowd = Crowd(group="/user.slice/user-0.slice/session-3.scope", tasks=3004, program="sleep", owner="root")  # fmt: skip
    found = only(judged(crowds=(crowd,)))
    assert (found.status, found.target) == (Status.FAIL, "gpu-1/session-3.scope")
    assert "3004 processes and threads of root, most of them sleep" in found.cause
    assert "grep -slx sleep $(sed" in found.fix
    assert "/sys/fs/cgroup/user.slice/user-0.slice/session-3.scope/cgroup.procs" in found.fix


def test_a_unit_close_to_its_limit_of_tasks_is_named() -> None:
    crowd = Crowd(group="/system.slice/cron.service", tasks=60, most=64, program="$(reboot)")
    found = only(judged(crowds=(crowd,)))
    assert (found.status, found.limit) == (Status.FAIL, 64)
    assert "reboot" not in found.fix


def test_a_variable_that_hides_gpus_from_every_login_is_named() -> None:
    one = Variable(at="/etc/profile.d/00.sh", name="CUDA_VISIBLE_DEVICES")
    found = only(judged(variables=(one,)))
    assert found.status is Status.FAIL
    assert found.cause.startswith("/etc/profile.d/00.sh sets CUDA_VISIBLE_DEVICES for every login")
    assert "sed -i '/CUDA_VISIBLE_DEVICES/d' /etc/profile.d/00.sh" in found.fix


@pytest.mark.parametrize(
    ("name", "cause", "fix"),
    [
        ("exit", "ends every login", r"sed -i '/^\s*exit/d' /etc/profile.d/00.sh"),
        ("ulimit -v", "limits every login", r"sed -i '/^\s*ulimit -v/d' /etc/profile.d/00.sh"),
    ],
)
def test_a_line_that_ends_or_limits_every_login_is_named(name: str, cause: str, fix: str) -> None:
    found = only(judged(variables=(Variable(at="/etc/profile.d/00.sh", name=name),)))
    assert cause in found.cause
    assert fix in found.fix


@pytest.mark.parametrize(
    ("trouble", "fix"),
    [
        ("has mode 0777", "on gpu-1: chmod go-w /home/ada"),
        ("belongs to bea", "on gpu-1: chown ada: /home/ada"),
        ("is of another account", "on gpu-1: chown ada: /home/ada"),
    ],
)
def test_keys_that_sshd_refuses_are_named(trouble: str, fix: str) -> None:
    found = only(judged(loose_keys=(Home(user="ada", at="/home/ada", trouble=trouble),)))
    assert (found.status, found.target) == (Status.FAIL, "gpu-1/home/ada")
    assert f"/home/ada of admin ada {trouble}: sshd refuses the keys" in found.cause
    assert found.fix == fix


def test_an_empty_list_of_authorities_is_named() -> None:
    spot = but(NULL, at="/etc/ssl/certs/ca-certificates.crt", kind="bundle", mode=0o644)
    found = only(judged(*SOUND, spot))
    assert "programs trust no certificate" in found.cause
    assert found.fix == "on gpu-1: update-ca-certificates --fresh"


def test_a_folder_on_a_tiny_file_system_is_named() -> None:
    found = only(judged(but(SHM, size=4 << 20, free=4 << 20)))
    assert (found.status, found.value) == (Status.FAIL, 4)


def test_a_login_script_that_prints_is_named_with_its_words() -> None:
    facts = facts_of("gpu-1", access=Access(spots=SOUND, homes=()), printed="'WELCOME'")
    (found,) = said_by("base.access", View(profile_of(), site_of("gpu-1"), {"gpu-1": facts}))
    assert (found.status, found.target) == (Status.WARN, "gpu-1/login")
    assert "prints 'WELCOME' without a terminal" in found.cause


def test_a_gpu_without_its_device_file_is_named() -> None:
    known = {"name": "NVIDIA A100-SXM4-80GB", "memory": 80 * GIB}
    devices = [
        {
            **known,
            "index": n,
            "minor": n,
            "uuid": f"GPU-{n:08x}-0000-0000-0000-000000000000",
            "bus_id": f"0000:{n:02x}:00.0",
        }
        for n in range(8)
    ]
    gpus = {"driver": "580.178.04", "nvml": "", "devices": devices}
    access = Access(spots=(TMP, CONTROL, *GPUS[:5], *GPUS[6:]), homes=())
    facts = facts_of("gpu-1", access=access, gpus=gpus)
    (found,) = said_by("base.access", View(profile_of(), site_of("gpu-1"), {"gpu-1": facts}))
    assert (found.status, found.target) == (Status.FAIL, "gpu-1/dev/nvidia5")
    assert found.fix == "on gpu-1: mknod -m 0666 /dev/nvidia5 c 195 5"
