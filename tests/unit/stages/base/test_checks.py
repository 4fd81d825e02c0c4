"""The checks of stage base: a good host, the fault each check is for, and the missing measurement."""

import re
from typing import Any

import pytest
from pydantic import ValidationError

from appliance.checks.check import HostCheck, View
from appliance.engine.look.shared_facts import shareable_facts
from appliance.models.facts import HostFacts
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Status
from appliance.models.site import Site
from appliance.probe.collectors import filesystems
from appliance.stages.base.checks import CHECKS
from appliance.stages.base.checks.foreign import judge_foreign, judge_purge, purged
from appliance.stages.base.checks.room import REMOTE
from appliance.stages.base.stage import STAGE
from appliance.stages.base.variables import sysctl
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

GIB = 1 << 30
TUNED = {
    "governor": "performance",
    "transparent_huge_pages": "madvise",
    "idle_latency_us": 20,
    "acs_disabled": True,
    "read_request": 4096,
    "iommu_passthrough": True,
    "relaxed_ordering": True,
}
PROFILE = profile_of(
    stages={"hugepages_2m": 1024, "sysctl": {"vm.swappiness": "5"}, "tuning": TUNED}
)
SITE = site_of("head", "gpu-1")
HOST = SITE.host("gpu-1")
UNIT = {"load": "loaded", "active": "active", "sub": "running", "enabled": "enabled"}
ROOT = {
    "at": "/",
    "source": "/dev/sda1",
    "type": "ext4",
    "size": 100 * GIB,
    "free": 50 * GIB,
    "inodes_free": 10**6,
}


LATER = {"value": "60", "file": "/etc/sysctl.d/99-x.conf"}
STRANGER = {
    "kind": "file",
    "at": "/etc/sudoers.d/zz",
    "owner": "root",
    "modified": 1_700_000_000,
    "line": "m ALL=(ALL) NOPASSWD: ALL",
}


def pcie(kind: str, *at: str, **changes: Any) -> dict[str, Any]:
    """Settings of tuned devices."""
    tuned = {"iommu": "identity", "payload": 256, "read_request": 4096, "relaxed": True}
    return {"kind": kind, "at": list(at), **tuned, **changes}


def receipt(*drifted: tuple[str, str], unread: int = 0) -> dict[str, Any]:
    """A receipt; these resources are not as it says."""
    words = dict.fromkeys(("stage", "fingerprint", "written", "run", "appliance"), "x")
    changes = [{"kind": k, "name": n, "expected": "a", "found": "b"} for k, n in drifted]
    return {**words, "resources": 9, "drift": changes, "unread": unread}


def facts(**changes: Any) -> HostFacts:
    """A good GPU host; a change that is a mapping is merged into what is there."""
    good: dict[str, Any] = {
        "taken": "2026-11-26T12:00:00Z",
        "gpus": {"driver": "580.178.04", "nvml": "", "devices": []},
        "os": {"state": "running", "kernel": "6.1.0-60-amd64"},
        "memory": {"total": 1000 * GIB, "available": 900 * GIB},
        "numa": [{"node": n, "cpus": "0-95", "memory": 500 * GIB} for n in (0, 1)],
        "filesystems": [ROOT],
        "clock": {"time": 1.0, "synchronised": True, "offset": 0.0001, "source": "head"},
        "sysctl": sysctl(PROFILE, SITE, HOST),
        "sysctl_at_boot": {
            key: {"value": value, "file": "/etc/sysctl.d/99-zz-appliance-base.conf"}
            for key, value in sysctl(PROFILE, SITE, HOST).items()
        },
        "access": {"homes": [], "spots": [{"at": "/tmp", "kind": "folder", "mode": 0o1777}]},
        "kernel_events": [],
        "neighbours": {"peers": [], "name_servers": [{"address": "192.0.2.53", "answers": True}]},
        "receipts": {"base": receipt()},
        "foreign": [],
        "memory_errors": {"controllers": 2, "corrected": 3, "uncorrected": 0, "since_s": 86400.0},
        "pcie_errors": {"devices": 40},
        "nvme": {"drives": 4, "most_used": 7},
        "tuning": {
            "governors": {"performance": 96},
            "huge_pages": "madvise",
            "idle_latency_us": 10,
            "devices": [
                pcie("GPU", "0000:18:00.0"),
                pcie("adapter", "0000:19:00.0", "0000:1a:00.0"),
            ],
            "bridges": 24,
        },
        "weekly": {"age_s": 3 * 86400.0, "seconds": 30},
        "units": dict.fromkeys(
            ("ssh.service", "chrony.service", "appliance-firewall.service"), UNIT
        ),
    }
    host = changes.pop("host", "gpu-1")
    for key, value in changes.items():
        merged = isinstance(good.get(key), dict) and isinstance(value, dict)
        good[key] = {**good[key], **value} if merged else value
    return facts_of(host, **good)


def judge(
    check_id: str, found: HostFacts, other: HostFacts | None = None, site: Site = SITE
) -> list[CheckResult]:
    """Results of one check for gpu-1, or of the cluster with ``other`` as head."""
    if check_id == "base.purge":
        site = site.model_copy(update={"base": site.base.model_copy(update={"purge": True})})
    seen = {"gpu-1": found, **({"head": other} if other else {})}
    view = View(PROFILE, site, seen, standing=shareable_facts(PROFILE, site, seen))
    return said_by(check_id, view, "gpu-1")


def statuses(results: list[CheckResult]) -> set[Status]:
    return {result.status for result in results}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_a_good_host_passes(check: HostCheck) -> None:
    results = judge(check.id, facts(), facts())
    assert statuses(results) == {Status.PASS}, (
        "facts() above is a good host: give it what is judged"
    )


CHANGED = {"kind": "package file", "name": "/usr/bin/nproc", "now": "content c79bf4424282"}
FATAL = {"at": "0000:17:00.0", "device": "the GPU", "fatal": 1, "nonfatal": 0, "correctable": 0}
IO_ERROR = {"id": "io-error", "what": "sda", "count": 1, "age": 60.0, "text": "I/O error, dev sda"}
FAULTS: dict[str, dict[str, Any]] = {
    "base.os": {"os": {"version_id": "11"}},
    "base.clock": {"clock": {"offset": -0.2}},
    "base.clock_spread": {"clock": {"offset": 1.5}},
    "base.sysctl": {"sysctl": {"vm.swappiness": "60"}},
    "base.sysctl_boot": {"sysctl_at_boot": {"vm.swappiness": LATER}},
    "base.units": {"units": {"chrony.service": {**UNIT, "active": "failed"}}},
    "base.failed_units": {"os": {"failed_units": ["a.service"], "state": "degraded"}},
    "base.drift": {"receipts": {"slurm": receipt(("file", "/etc/slurm/slurm.conf"))}},
    "base.foreign": {"foreign": [STRANGER]},
    "base.purge": {"foreign": [STRANGER]},
    "base.weekly": {"weekly": {"changes": [CHANGED]}},
    "base.disk": {"filesystems": [{**ROOT, "free": 4 * GIB}]},
    "base.memory_errors": {"memory_errors": {"uncorrected": 1}},
    "base.pcie_errors": {"pcie_errors": {"errors": [FATAL]}},
    "base.nvme": {"nvme": {"notable": [{"name": "nvme0", "warning": 8, "used": 3}]}},
    "base.tuning": {"tuning": {"governors": {"performance": 90, "powersave": 6}}},
    "base.pcie_tuning": {"tuning": {"access_control": {"0000:16:01.0": 0x1D}}},
    "base.pcie_firmware": {
        "tuning": {"devices": [pcie("GPU", "0000:18:00.0", iommu="DMA-FQ")]},
    },
    "base.access": {"access": {"nologin": ["/etc/nologin"]}},
    "base.kernel_log": {"kernel_events": [IO_ERROR]},
    "base.neighbours": {
        "neighbours": {"name_servers": [{"address": "192.0.2.1", "answers": False}]}
    },
    "base.cpu": {"cpu": {"cores": 48}},
    "base.memory_size": {"memory": {"total": 900 * GIB}},
    "base.numa": {"numa": [{"node": 0, "cpus": "0", "memory": GIB}]},
    "base.facts": {"memory": {"total": 8 * GIB}},
}


@pytest.mark.parametrize(("check_id", "fault"), FAULTS.items(), ids=FAULTS)
def test_the_fault_a_check_is_for_fails_it(check_id: str, fault: dict[str, Any]) -> None:
    found = [r for r in judge(check_id, facts(**fault), facts()) if r.status is not Status.PASS]
    assert [result.status for result in found] == [Status.FAIL]
    assert found[0].cause
    assert found[0].fix


MISSING: dict[str, dict[str, Any]] = {
    "base.os": {"errors": {"os": "cannot be read"}, "os": {"id": "unknown"}},
    "base.clock": {"clock": {"offset": None}},
    "base.clock_spread": {"clock": {"offset": None}},
    "base.sysctl": {"sysctl": {}},
    "base.sysctl_boot": {"sysctl_at_boot": None},
    "base.units": {"units": {}},
    "base.failed_units": {"os": {"state": ""}},
    "base.drift": {"receipts": {"base": receipt(unread=1)}},
    "base.foreign": {"foreign": None},
    "base.purge": {"foreign": None},
    "base.weekly": {"weekly": None, "errors": {"weekly": "needs root to read last.json"}},
    "base.disk": {"filesystems": []},
    "base.memory": {"memory": {"total": 0, "available": 0}},
    "base.advisories": {"errors": {"packages": "dpkg-query: its database is locked"}},
    "base.memory_errors": {"memory_errors": None},
    "base.pcie_errors": {"pcie_errors": None, "errors": {"aer": "no answer within 5 s"}},
    "base.nvme": {"nvme": None, "errors": {"nvme": "needs root to read /dev/nvme0"}},
    "base.tuning": {"tuning": None, "errors": {"tuning": "no answer within 5 s"}},
    "base.pcie_tuning": {"tuning": None, "errors": {"tuning": "no answer within 5 s"}},
    "base.pcie_firmware": {"tuning": None, "errors": {"tuning": "no answer within 5 s"}},
    "base.access": {"access": None, "errors": {"access": "no answer within 8 s"}},
    "base.kernel_log": {"kernel_events": None, "errors": {"xids": "no kernel log here"}},
    "base.neighbours": {"neighbours": None, "errors": {"neighbours": "no answer within 5 s"}},
    "base.cpu": {"cpu": {"cores": 0}},
    "base.memory_size": {"memory": {"total": 0}},
    "base.numa": {"numa": []},
    "base.facts": {"cpu": {"threads": 0}, "errors": {"cpu": "/proc/cpuinfo cannot be read"}},
}
WHOLE = {"base.sysctl": "sysctl", "base.units": "units"}


@pytest.mark.parametrize(("check_id", "gap"), MISSING.items(), ids=MISSING)
def test_a_missing_measurement_is_never_a_pass(check_id: str, gap: dict[str, Any]) -> None:
    found = facts(**gap)
    if check_id in WHOLE:
        found = found.model_copy(update={WHOLE[check_id]: {}})
    results = judge(check_id, found, facts())
    assert statuses(results) == {Status.NOT_ASSESSED}
    assert all(result.required and result.cause for result in results)


def test_every_check_has_its_fault_and_its_gap_and_proves_the_stage() -> None:
    ids = {check.id for check in CHECKS}
    assert ids == set(MISSING), "MISSING has a case for each check"
    assert ids == set(FAULTS) | {"base.memory", "base.advisories"}, (
        "FAULTS has a case for each check; the set beside it names those that only warn"
    )
    assert {*STAGE.checks, *STAGE.symptoms} == ids


@pytest.mark.parametrize("check_id", ["base.cpu", "base.memory_size", "base.numa"])
def test_a_container_is_not_judged_by_its_machines_size(check_id: str) -> None:
    (result,) = judge(check_id, facts(os={"container": "systemd-nspawn"}))
    assert (result.status, result.required) == (Status.NOT_ASSESSED, False)
    assert result.cause == "container host shares its machine's processors"


def test_simulated_processors_are_not_judged() -> None:
    assert judge("base.cpu", facts(simulated=["cpu"]))[0].status is Status.NOT_ASSESSED
    assert judge("base.cpu", facts(simulated=["gpu"]))[0].status is Status.PASS


TAKEN = {"gpu-1": {"package file": {"/usr/bin/nproc": "content c79bf4424282"}}}


@pytest.mark.parametrize(
    ("last", "status", "words"),
    [
        ({"age_s": 10 * 86400.0}, Status.WARN, "the last weekly run was 10 days ago"),
        (
            {"age_s": 10 * 86400.0, "looked": False},
            Status.WARN,
            "no weekly run for 10 days",
        ),
        ({"age_s": 60.0, "looked": False}, Status.NOT_ASSESSED, "not finished yet"),
        ({"problem": "dpkg: not installed"}, Status.WARN, "not every file was read: dpkg"),
        (
            {"changes": [{**CHANGED, "kind": "program", "name": "/usr/local/bin/srun"}]},
            Status.WARN,
            "3 days ago found program /usr/local/bin/srun is new: content c79bf4424282",
        ),
        (
            {"changes": [CHANGED], "more": 2},
            Status.FAIL,
            "found package file /usr/bin/nproc: as usual then, content c79bf4424282 now, and 2 more",
        ),
    ],
)
def test_the_hosts_own_look_at_every_file_is_told_with_its_age(
    last: dict[str, Any], status: Status, words: str
) -> None:
    (result,) = judge("base.weekly", facts(weekly=last))
    assert result.status is status
    assert words in result.cause


def test_what_was_accepted_since_is_not_told_and_neither_what_base_foreign_names() -> None:
    seen = facts(weekly={"changes": [CHANGED]})
    for taken, status in ((TAKEN, Status.PASS), ({"gpu-1": {"package file": {}}}, Status.FAIL)):
        view = View(PROFILE, SITE, {"gpu-1": seen}, taken=taken)
        assert statuses(said_by("base.weekly", view, "gpu-1")) == {status}
    strange = {**CHANGED, "kind": "configuration file", "name": STRANGER["at"]}
    seen = facts(weekly={"changes": [strange]}, foreign=[STRANGER])
    assert statuses(judge("base.weekly", seen)) == {Status.PASS}


def test_one_socket_of_two_fails_even_with_cores_enough() -> None:
    results = judge("base.cpu", facts(cpu={"sockets": 1}))
    assert [r.target for r in results if r.status is Status.FAIL] == ["gpu-1/sockets"]


def test_processors_nobody_could_count_are_not_called_missing() -> None:
    unread = facts(cpu={"cores": 0, "sockets": 0}, errors={"cpu": "no answer within 5 s"})
    (result,) = judge("base.cpu", unread)
    assert (result.status, result.cause) == (Status.NOT_ASSESSED, "no answer within 5 s")


@pytest.mark.parametrize("lame", [{"memory": 0}, {"cpus": ""}])
def test_a_node_that_no_gpu_has_memory_and_processors_on_does_not_count(
    lame: dict[str, Any],
) -> None:
    whole = {"node": 0, "cpus": "0-95", "memory": 500 * GIB}
    (result,) = judge("base.numa", facts(numa=[whole, {**whole, "node": 1, **lame}]))
    assert (result.status, result.cause) == (Status.FAIL, "1 NUMA node, the class has 2")
    assert "node interleaving" in result.fix


def test_a_clock_without_source_fails() -> None:
    (result,) = judge("base.clock", facts(clock={"synchronised": False, "offset": None}))
    assert result.status is Status.FAIL
    assert "no source" in result.cause


def test_servers_that_do_not_answer_and_servers_that_are_not_asked_are_told_apart() -> None:
    lost = {"synchronised": False, "offset": None, "sources": ["192.0.2.7"]}
    (silent,) = judge("base.clock", facts(clock=lost))
    assert "192.0.2.7 does not answer" in silent.cause
    assert "appliance deploy --stage base --hosts gpu-1" in silent.fix
    (none,) = judge("base.clock", facts(clock={**lost, "sources": []}))
    assert "no server is configured" in none.cause
    (alone,) = judge("base.clock", facts(clock={"online": 0}))
    assert (alone.status, "queries no server" in alone.cause) == (Status.FAIL, True)
    assert alone.fix.startswith("on gpu-1: systemctl restart chrony")


@pytest.mark.parametrize(
    ("missed", "status"),
    [(None, Status.PASS), (0, Status.PASS), (2, Status.PASS), (3, Status.WARN), (8, Status.FAIL)],
)
def test_servers_that_stopped_to_answer_are_told_before_the_clock_is_off(
    missed: int | None, status: Status
) -> None:
    (result,) = judge("base.clock", facts(clock={"unanswered": missed}))
    assert result.status is status
    if missed in {3, 8}:
        assert f"no time server answered the last {missed} queries" in result.cause
        assert "open port 123/udp from gpu-1" in result.fix


def test_the_rule_that_drops_the_answers_of_a_time_server_is_named() -> None:
    rule = {"by": "rule inet corp in handle 2", "says": "udp sport 123 drop", "ports": [123]}
    told = {"clock": {"unanswered": 8}, "neighbours": {"blocks": [rule]}}
    (result,) = judge("base.clock", facts(**told))
    assert result.fix.startswith(
        "on gpu-1: nft delete rule inet corp in handle 2; systemctl restart chrony"
    )


@pytest.mark.parametrize(
    ("hours", "status"), [(0.5, Status.PASS), (3.0, Status.PASS), (5.2, Status.WARN)]
)
def test_a_source_that_has_been_silent_for_long_is_no_source(hours: float, status: Status) -> None:
    """chronyd goes on to call itself synchronised."""
    clock = {"time": 1e9, "updated": 1e9 - hours * 3600}
    (result,) = judge("base.clock", facts(clock=clock))
    assert result.status is status
    if status is Status.WARN:
        assert "source head has not answered for 5.2 h" in result.cause
    far = {**clock, "offset": 1.0}
    assert statuses(judge("base.clock", facts(clock=far))) == {Status.FAIL}


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"read_only": True, "turned": True}, Status.FAIL),
        ({"read_only": True}, Status.PASS),
        ({"read_only": True, "turned": True, "type": "nfs4"}, Status.PASS),
    ],
)
def test_a_disk_the_kernel_turned_read_only_fails_wherever_it_is_mounted(
    changes: dict[str, Any], status: Status
) -> None:
    data = {**ROOT, "at": "/var", "source": "/dev/sdb1", **changes}
    results = judge("base.disk", facts(filesystems=[ROOT, data]))
    assert statuses(results) == {status}
    if status is Status.FAIL:
        assert results[0].target == "gpu-1//var"


def test_a_disk_that_gives_errors_is_not_passed_over() -> None:
    """What could not be measured is in no list of file systems."""
    hung = {"area": "filesystems", "text": "/mnt/own does not answer", "at": "/mnt/own"}
    dead = {"area": "filesystems", "text": "/var: x", "at": "/var", "kind": "io_error"}
    # Of a file alone nobody can say what to unmount; its own area tells it.
    file = {"area": "kubernetes", "text": "ca: x", "at": "/etc/ca.crt", "kind": "io_error"}
    (result,) = judge("base.disk", facts(problems=[hung, dead, file]))
    assert (result.status, result.target) == (Status.FAIL, "gpu-1//var")
    assert result.cause == "/var returns errors: Input/output error"


def test_units_of_a_host_without_systemd_are_not_assessed() -> None:
    offline = {"load": "offline", "active": "unknown", "sub": "", "enabled": ""}
    units = dict.fromkeys(("ssh.service", "chrony.service", "appliance-firewall.service"), offline)
    assert statuses(judge("base.units", facts(units=units))) == {Status.NOT_ASSESSED}


@pytest.mark.parametrize(
    ("unit", "fix"),
    [
        ({"active": "inactive", "sub": "dead"}, "systemctl start systemd-logind.service"),
        ({"active": "suspended", "sub": "stopped by a signal"}, "systemctl restart systemd-logind.service"),
        ({"load": "masked", "active": "inactive"}, "systemctl unmask systemd-logind.service; systemctl start systemd-logind.service"),
    ],
)  # fmt: skip
def test_a_service_of_the_system_that_does_not_run_is_named(unit: dict[str, str], fix: str) -> None:
    usual = {"load": "loaded", "active": "active", "sub": "running", "enabled": "static"}
    sound = dict.fromkeys(("ssh.service", "chrony.service", "appliance-firewall.service"), usual)
    found = judge("base.units", facts(units={**sound, "systemd-logind.service": {**usual, **unit}}))
    (bad,) = [one for one in found if one.status is Status.FAIL]
    assert (bad.target, bad.fix) == ("gpu-1/systemd-logind.service", f"on gpu-1: {fix}")


@pytest.mark.parametrize(
    ("change", "target", "fix"),
    [
        ({"boots_into": "rescue.target"}, "gpu-1/default.target", "systemctl set-default multi-user.target"),
        ({"lost_at_boot": ["/backup"]}, "gpu-1/fstab,/backup", "the line of /backup in /etc/fstab"),
    ],
)  # fmt: skip
def test_a_start_that_would_end_in_a_shell_is_named(
    change: dict[str, Any], target: str, fix: str
) -> None:
    (bad,) = [one for one in judge("base.units", facts(os=change)) if one.status is Status.FAIL]
    assert bad.target == target
    assert fix in bad.fix


def test_a_mount_of_fstab_gets_the_option_by_which_the_boot_goes_on() -> None:
    lost = {"lost_at_boot": ["/mnt/old.1", "/mnt/odd'name"]}
    found = [one for one in judge("base.units", facts(os=lost)) if one.status is Status.FAIL]
    pattern = r"s#^(\S+\s+/mnt/old\.1\s+\S+\s+)#\1nofail,#"
    assert found[0].fix.endswith(f"sed -i -E '{pattern}' /etc/fstab")
    line = "UUID=1 /mnt/old.1\text4 defaults 0 2"
    changed = re.sub(pattern.split("#")[1], pattern.split("#")[2], line)
    assert changed == "UUID=1 /mnt/old.1\text4 nofail,defaults 0 2"
    assert "sed" not in found[1].fix


def test_logind_that_ended_with_dbus_is_started_with_it() -> None:
    usual = {"load": "loaded", "active": "active", "sub": "running", "enabled": "static"}
    dead = {**usual, "active": "inactive", "sub": "dead"}
    sound = dict.fromkeys(("ssh.service", "chrony.service", "appliance-firewall.service"), usual)
    both = {**sound, "dbus.service": dead, "systemd-logind.service": dead}
    found = judge("base.units", facts(units=both))
    (bad,) = [one for one in found if one.status is Status.FAIL]
    assert bad.target == "gpu-1/dbus.service"
    assert bad.fix == "on gpu-1: systemctl start dbus.service systemd-logind.service"


def test_a_system_without_one_of_its_usual_services_is_sound() -> None:
    usual = {"load": "loaded", "active": "active", "sub": "running", "enabled": "enabled"}
    absent = {"load": "not-found", "active": "inactive", "sub": "dead", "enabled": ""}
    sound = dict.fromkeys(("ssh.service", "chrony.service", "appliance-firewall.service"), usual)
    found = judge("base.units", facts(units={**sound, "dbus.service": absent}))
    assert statuses(found) == {Status.PASS}


def test_few_inodes_are_counted_in_inodes() -> None:
    (result,) = judge("base.disk", facts(filesystems=[{**ROOT, "inodes_free": 7}]))
    assert (result.value, result.unit, result.limit) == (7, "inodes", 1024)


def test_the_sites_limit_rules_the_clock() -> None:
    limit = Limit(value=0.5, unit="s", source="customer")
    site = SITE.model_copy(update={"limits": {"base.clock": limit}})
    (result,) = judge("base.clock", facts(clock={"offset": -0.2}), site=site)
    assert (result.status, result.limit_source) == (Status.PASS, "customer")


def test_the_spread_is_unknown_while_a_host_is_silent() -> None:
    (result,) = judge("base.clock_spread", facts())
    assert result.status is Status.NOT_ASSESSED
    assert "head" in result.cause


def test_parameters_of_the_machine_are_not_assessed_in_a_container() -> None:
    live = {**sysctl(PROFILE, SITE, HOST), "vm.swappiness": "60"}
    found = facts(os={"container": "systemd-nspawn"}, sysctl=live)
    own, shared = judge("base.sysctl", found)
    assert own.status is Status.PASS
    assert (shared.status, shared.required) == (Status.NOT_ASSESSED, False)
    assert "vm.swappiness" in shared.evidence


def test_a_kernel_without_ipv6_lacks_nothing() -> None:
    live = {k: v for k, v in sysctl(PROFILE, SITE, HOST).items() if "ipv6" not in k}
    found = facts()
    found = found.model_copy(update={"sysctl": live})
    assert statuses(judge("base.sysctl", found)) == {Status.PASS}
    opened = {"net.ipv6.conf.all.accept_redirects": "1"}
    assert statuses(judge("base.sysctl", facts(sysctl=opened))) == {Status.FAIL}


def test_a_strict_site_asks_for_more_parameters() -> None:
    strict = SITE.model_copy(update={"base": SITE.base.model_copy(update={"strict": True})})
    (result,) = judge("base.sysctl", facts(), site=strict)
    assert result.status is Status.NOT_ASSESSED
    assert "log_martians" in result.cause
    live = {**sysctl(PROFILE, strict, HOST), "net.ipv4.conf.all.log_martians": "0"}
    assert statuses(judge("base.sysctl", facts(sysctl=live), site=strict)) == {Status.FAIL}


def test_a_containers_own_parameter_is_judged() -> None:
    found = facts(os={"container": "systemd-nspawn"}, sysctl={"net.core.somaxconn": "128"})
    assert judge("base.sysctl", found)[0].status is Status.FAIL


def test_white_space_of_the_kernel_does_not_matter() -> None:
    live = {"net.ipv4.tcp_rmem": "4096\t131072\t134217728"}
    assert judge("base.sysctl", facts(sysctl=live))[0].status is Status.PASS


def test_a_unit_that_is_not_enabled_fails() -> None:
    results = judge("base.units", facts(units={"ssh.service": {**UNIT, "enabled": "disabled"}}))
    assert [r.target for r in results if r.status is Status.FAIL] == ["gpu-1/ssh.service"]


def test_red_hat_names_its_units_otherwise() -> None:
    names = {"sshd.service": UNIT, "chronyd.service": UNIT, "appliance-firewall.service": UNIT}
    found = facts(os={"id": "rocky", "version_id": "9.4", "like": ["rhel"]}, units=names)
    assert statuses(judge("base.units", found)) == {Status.PASS}


def test_no_firewall_is_asked_for_where_the_site_wants_none() -> None:
    base = SITE.base.model_copy(update={"firewall": False})
    site = SITE.model_copy(update={"base": base})
    found = facts(units={"appliance-firewall.service": {**UNIT, "active": "inactive"}})
    assert statuses(judge("base.units", found, site=site)) == {Status.PASS}


def test_a_disk_warns_before_it_fails() -> None:
    (result,) = judge("base.disk", facts(filesystems=[{**ROOT, "free": 8 * GIB}]))
    assert result.status is Status.WARN


def test_a_disk_without_inodes_fails() -> None:
    (result,) = judge("base.disk", facts(filesystems=[{**ROOT, "inodes_free": 3}]))
    assert result.status is Status.FAIL
    assert "inodes" in result.cause


def test_a_root_that_has_become_read_only_fails() -> None:
    data = {**ROOT, "at": "/data"}
    (result,) = judge("base.disk", facts(filesystems=[{**ROOT, "read_only": True}, data]))
    assert (result.status, result.target) == (Status.FAIL, "gpu-1//")
    assert "is read-only" in result.cause


def test_file_systems_without_fixed_inodes_and_remote_ones_do_not_count() -> None:
    btrfs = {**ROOT, "at": "/b", "type": "btrfs", "inodes_free": 0}
    nfs = {**ROOT, "at": "/n", "type": "nfs4", "free": 0}
    assert statuses(judge("base.disk", facts(filesystems=[ROOT, btrfs, nfs]))) == {Status.PASS}


def test_what_the_probe_calls_remote_is_no_disk_of_the_host() -> None:
    assert REMOTE == filesystems.REMOTE


def test_little_memory_is_a_warning() -> None:
    (result,) = judge("base.memory", facts(memory={"available": GIB}))
    assert result.status is Status.WARN


@pytest.mark.parametrize("state", ["running", "degraded"])
def test_what_users_can_have_fail_fails_no_host(state: str) -> None:
    own = ["user@2001.service", "user-runtime-dir@2001.service", "session-12.scope"]
    own += ["session-c3.scope", "systemd-coredump@4-1234-0.service"]
    (result,) = judge("base.failed_units", facts(os={"failed_units": own, "state": state}))
    assert result.status is Status.PASS
    for other in ("users@2001.service", "user@root.service", "user@1.serviced", "session-x.scope"):
        both = {"failed_units": [*own, other], "state": state}
        (result,) = judge("base.failed_units", facts(os=both))
        assert (result.status, result.names) == (Status.FAIL, (other,))


def test_a_degraded_host_that_names_no_failed_unit_has_no_verdict_on_its_units() -> None:
    (result,) = judge("base.failed_units", facts(os={"state": "degraded"}))
    assert (result.status, result.cause) == (
        Status.NOT_ASSESSED,
        "the state of systemd is degraded",
    )


def test_a_host_that_is_still_starting_has_no_verdict_on_its_units() -> None:
    assert (
        judge("base.failed_units", facts(os={"state": "starting"}))[0].status is Status.NOT_ASSESSED
    )


@pytest.mark.parametrize(
    ("largest", "fix"),
    [
        ("5368709120 0 /var/log/huge.log", "on gpu-1: truncate -s 0 /var/log/huge.log"),
        ("5368709120 2301 /scratch/greedy", "rm -r /scratch/greedy"),
        ("5368709120 0 /tmp/old", "rm -r /tmp/old"),
        ("5368709120 0 /opt/cuda", "du -xah /opt/cuda"),
        ("x", "du -xh -d2 /"),
    ],
)
def test_what_fills_a_disk_is_named_and_nothing_of_the_system_is_removed(
    largest: str, fix: str
) -> None:
    full = {**ROOT, "free": 4 * GIB, "largest": largest}
    (result,) = judge("base.disk", facts(filesystems=[full]))
    assert result.status is Status.FAIL
    assert fix in result.fix
    assert ("rm -r" in result.fix) is ("rm -r" in fix)


def test_one_full_file_system_is_one_failure_wherever_it_is_seen() -> None:
    disk = {**ROOT, "source": "/dev/loop0", "free": 0, "inodes_free": 900}
    root = {**disk, "source": "overlay", "type": "overlay"}
    bound = [{**disk, "at": at} for at in ("/export", "/scratch", "/srv")]
    other = {
        **ROOT,
        "at": "/var",
        "source": "/dev/sdb1",
        "size": 200 * GIB,
        "free": 0,
        "inodes_free": 900,
        "type": "xfs",
    }
    found = judge("base.disk", facts(filesystems=[root, *bound, other]))
    assert [r.target for r in found] == ["gpu-1//", "gpu-1//var"]
    assert found[0].cause.endswith("/export, /scratch, /srv: one file system")


def test_every_stages_changes_are_named_and_none_that_another_check_judges() -> None:
    changed = receipt(
        ("nftables", "inet appliance"),
        ("unit", "chrony.service"),
        ("package", "chrony"),
        ("sysctl", "vm.swappiness"),
        ("sysctl", "kernel.hostname"),
        ("unit file", "chrony.service"),
    )
    (result,) = judge("base.drift", facts(receipts={"base": changed}))
    assert result.names == (
        "nftables inet appliance",
        "package chrony",
        "sysctl kernel.hostname",
        "unit file chrony.service",
    )
    assert result.cause.startswith("changed since the deployment: nftables inet appliance (a → b)")


def test_a_drop_in_of_set_property_is_removed_before_a_deployment() -> None:
    path = "/run/systemd/system.control/slurmd.service.d/50-MemoryMax.conf"
    changed = receipt(("unit file", "slurmd.service"))
    changed["drift"][0]["found"] = path
    (result,) = judge("base.drift", facts(receipts={"slurm": changed}))
    assert f"rm {path}; systemctl daemon-reload; systemctl restart slurmd.service; " in result.fix
    changed["drift"][0]["found"] = path + ";reboot"
    (result,) = judge("base.drift", facts(receipts={"slurm": changed}))
    assert "rm " not in result.fix
    assert "drift" not in {*STAGE.checks}, "a drift of a later stage must not undo this one's proof"


def asking(**base: object) -> Site:
    """The site with these keys of its section base."""
    return site_of("head", "gpu-1", base=base)


def foreign_of(check_id: str, site: Site, *found: dict[str, Any]) -> list[CheckResult]:
    judging = judge_purge if check_id == "base.purge" else judge_foreign
    judged = judging(View(PROFILE, site, {}), HOST, facts(foreign=found))
    return [one.of(check_id) for one in judged]


def test_a_stranger_is_named_with_owner_time_and_first_line() -> None:
    (result,) = foreign_of("base.foreign", SITE, STRANGER)
    assert result.target == "gpu-1/etc/sudoers.d/zz"
    assert result.cause == (
        "/etc/sudoers.d/zz is not managed by the appliance (of root, 2023-11-14 22:13 UTC): "
        '"m ALL=(ALL) NOPASSWD: ALL"'
    )
    account = {**STRANGER, "kind": "account", "at": "toor", "line": "has root's number"}
    (result,) = foreign_of("base.foreign", SITE, account)
    assert (result.target, result.cause) == (
        "gpu-1/account toor",
        "account toor has root's number",
    )


def test_a_key_of_nobodys_is_removed_by_its_last_letters() -> None:
    """They hold no character that sed or the shell would read as its own."""
    at = "/root/.ssh/authorized_keys"
    key = {**STRANGER, "kind": "key", "at": at, "line": f"ssh-ed25519 SHA256:{'a' * 43} m"}
    (result,) = foreign_of("base.foreign", SITE, {**key, "end": "Gw9/wcQIuxS/p2Cc"})
    assert result.fix.startswith(f"on gpu-1: sed -i '\\#Gw9/wcQIuxS/p2Cc#d' {at}, or keep it")
    (result,) = foreign_of("base.foreign", SITE, key)
    assert result.fix.startswith("on gpu-1: undo it")
    with pytest.raises(ValidationError):
        foreign_of("base.foreign", SITE, {**key, "end": "x#d; s/.*//e"})


def test_a_place_that_could_not_be_looked_into_is_said_so_and_not_moved_away() -> None:
    at = "/home/ann/.ssh/rc"
    said = {"kind": "folder", "at": at, "owner": "", "modified": 0, "lines": 1}
    hidden = {**said, "line": "not read: a symbolic link, not followed"}
    (result,) = foreign_of("base.foreign", asking(purge=True), hidden)
    assert result.cause == f"{at} is not read: a symbolic link, not followed"
    assert foreign_of("base.purge", asking(purge=True), hidden)[0].status is Status.PASS


KEPT: tuple[tuple[str, dict[str, str]], ...] = (
    ("/etc/sudoers.d/zz", {}),
    ("/etc/sudoers.d/*", {}),
    ("account toor", {"kind": "account", "at": "toor"}),
    ("SHA256:" + "a" * 43, {"kind": "key", "line": "ssh-rsa SHA256:" + "a" * 43 + " m"}),
)


@pytest.mark.parametrize(("kept", "change"), KEPT)
def test_what_the_site_names_may_stay(kept: str, change: dict[str, str]) -> None:
    found = {**STRANGER, **change}
    (result,) = foreign_of("base.foreign", asking(keep=[kept]), found)
    assert result.status is Status.PASS
    other = foreign_of("base.foreign", asking(keep=["/etc/other"]), found)
    assert [r.status for r in other] == [Status.FAIL]


@pytest.mark.parametrize("change", [change for _, change in KEPT])
def test_the_remedy_says_what_to_write_to_keep_it(change: dict[str, str]) -> None:
    found = {**STRANGER, **change}
    (result,) = foreign_of("base.foreign", SITE, found)
    _, name, where = result.fix.split('"')
    assert where == " in base.keep of site.yml"
    (kept,) = foreign_of("base.foreign", asking(keep=[name]), found)
    assert kept.status is Status.PASS


@pytest.mark.parametrize("at", ["/etc/cron.d/[a]", '/etc/cron.d/"'])
def test_a_name_that_no_site_could_hold_is_not_offered(at: str) -> None:
    (result,) = foreign_of("base.foreign", SITE, {**STRANGER, "at": at})
    assert "base.keep" not in result.fix


SYSTEM: tuple[tuple[str, str, str, str], ...] = (
    ("password", "", "has a password", "usermod -p '*' munge"),
    ("shell", "/bin/sh", "has a shell, /bin/sh", "usermod -s /usr/sbin/nologin munge"),
    ("group", "sudo", "is in group sudo", "gpasswd -d munge sudo"),
    (
        "primary group",
        "root",
        "has root for its own group",
        "groupadd -f --system munge; usermod -g munge munge",
    ),
)


@pytest.mark.parametrize(("kind", "line", "what", "remedy"), SYSTEM)
def test_what_a_system_account_has_too_much_is_named_with_what_takes_it(
    kind: str, line: str, what: str, remedy: str
) -> None:
    found = {**STRANGER, "kind": kind, "at": "munge", "line": line}
    (result,) = foreign_of("base.foreign", SITE, found)
    assert (result.status, result.cause) == (Status.FAIL, f"account munge of the system {what}")
    assert result.fix == f'on gpu-1: {remedy}, or keep it: "account munge" in base.keep of site.yml'
    (kept,) = foreign_of("base.foreign", asking(keep=["account munge"]), found)
    assert kept.status is Status.PASS
    # Whoever deploys, or administers, has these rights by the site.
    access = site_of("head", "gpu-1", access={"user": "munge", "become": True})
    assert statuses(foreign_of("base.foreign", access, found)) == {Status.PASS}
    admin = asking(admins=[{"name": "munge", "keys": [f"ssh-ed25519 {'A' * 68} a"]}])
    assert statuses(foreign_of("base.foreign", admin, found)) == {Status.PASS}


@pytest.mark.parametrize(
    ("at", "remedy"),
    [
        ("/etc/cron.d/cleanup", "rm /etc/cron.d/cleanup"),
        (
            "/etc/systemd/system/slurmd.service.d/zz.conf",
            "rm /etc/systemd/system/slurmd.service.d/zz.conf; systemctl daemon-reload; systemctl restart slurmd.service",
        ),
        (
            "/etc/ssh/sshd_config.d/0.conf",
            "rm /etc/ssh/sshd_config.d/0.conf; systemctl reload ssh || systemctl reload sshd",
        ),
    ],
)
def test_a_file_of_nobodys_is_removed_and_whoever_read_it_reads_again(at: str, remedy: str) -> None:
    (result,) = foreign_of("base.foreign", SITE, {**STRANGER, "at": at})
    assert result.fix == f'on gpu-1: {remedy}, or keep it: "{at}" in base.keep of site.yml'


@pytest.mark.parametrize(
    ("at", "remedy"),
    [
        ("/etc/ssh/sshd_config", "cp /usr/share/openssh/sshd_config /etc/ssh/sshd_config; systemctl reload ssh"),
        ("/etc/pam.d/sshd", "dpkg-deb --fsys-tarfile *.deb | tar -xOf - ./etc/pam.d/sshd > /etc/pam.d/sshd"),
    ],
)  # fmt: skip
def test_a_changed_file_of_a_package_is_written_as_the_package_ships_it(
    at: str, remedy: str
) -> None:
    (result,) = foreign_of("base.foreign", SITE, {**STRANGER, "kind": "changed", "at": at})
    assert result.fix.endswith(f'{remedy}, or keep it: "{at}" in base.keep of site.yml')


@pytest.mark.parametrize("name", ["-x", "a;reboot", "$(id)", "a b", "\u00e4"])
def test_no_word_of_a_host_becomes_a_command(name: str) -> None:
    found = {**STRANGER, "kind": "group", "at": "munge", "line": name}
    (result,) = foreign_of("base.foreign", SITE, found)
    assert result.fix.startswith("on gpu-1: undo it, or keep it")
    crontab = {**STRANGER, "at": f"/var/spool/cron/crontabs/{name}"}
    (result,) = foreign_of("base.foreign", SITE, crontab)
    assert "crontab -r" not in result.fix


@pytest.mark.parametrize(
    ("at", "remedy"),
    [
        ("/var/spool/cron/crontabs/bob", "crontab -r -u bob"),
        ("/var/spool/cron/bob", "crontab -r -u bob"),
        ("/var/spool/cron/atjobs/a0001", "rm /var/spool/cron/atjobs/a0001"),
        ("/var/lib/systemd/linger/bob", "loginctl disable-linger bob"),
    ],
)
def test_work_that_outlives_jobs_is_named_with_its_user_and_what_ends_it(
    at: str, remedy: str
) -> None:
    found = {**STRANGER, "at": at, "owner": "bob", "line": "* * * * * ./train"}
    (result,) = foreign_of("base.foreign", SITE, found)
    assert result.cause.startswith(f"{at} is not managed by the appliance (of bob,")
    assert result.fix.startswith(f"on gpu-1: {remedy}, because it runs without a job, or keep it")


def test_only_files_are_purged_and_only_where_the_site_says_so() -> None:
    key = {**STRANGER, "kind": "key", "at": "/root/.ssh/authorized_keys"}
    assert foreign_of("base.purge", SITE, STRANGER) == []
    purging = asking(purge=True)
    assert [r.name for r in foreign_of("base.purge", purging, STRANGER, key)] == [
        "base.purge gpu-1/etc/sudoers.d/zz"
    ]
    (left,) = foreign_of("base.foreign", purging, STRANGER, key)
    assert (left.status, left.parts[0].split()[0]) == (Status.FAIL, "root/.ssh/authorized_keys")
    found = facts(foreign=[STRANGER, key])
    assert purged(purging, found) == ("/etc/sudoers.d/zz",)
    assert purged(SITE, found) == ()
    assert purged(asking(purge=True, keep=["/etc/sudoers.d/*"]), found) == ()
    assert "base.purge" in STAGE.checks, "a deployment mends it"
    assert "base.foreign" in STAGE.symptoms, "no deployment does"


def test_a_later_file_is_named_with_what_it_makes_of_the_parameter() -> None:
    (result,) = judge("base.sysctl_boot", facts(sysctl_at_boot={"vm.swappiness": LATER}))
    assert result.target == "gpu-1/vm.swappiness"
    assert result.cause == "vm.swappiness will be 60, not 5: /etc/sysctl.d/99-x.conf is read last"
    container = facts(sysctl_at_boot={"vm.swappiness": LATER}, os={"container": "podman"})
    assert statuses(judge("base.sysctl_boot", container)) == {Status.PASS}, "its machine's business"
    assert "base.sysctl_boot" in STAGE.symptoms


@pytest.mark.parametrize(
    ("become", "change", "status"),
    [
        (True, {}, Status.PASS),
        (False, {}, Status.FAIL),
        (True, {"lines": 2}, Status.FAIL),
        (True, {"line": "mallory ALL=(ALL) NOPASSWD: ALL"}, Status.FAIL),
        (True, {"at": "/etc/cron.d/x"}, Status.FAIL),
    ],
)
def test_the_rule_by_which_the_site_becomes_root_is_no_strangers(
    become: bool, change: dict[str, Any], status: Status
) -> None:
    access = {"user": "ops", "become": become}
    site = site_of("head", "gpu-1", access=access)
    rule = {**STRANGER, "line": "ops ALL=(ALL:ALL) NOPASSWD: ALL", "lines": 1, **change}
    assert statuses(foreign_of("base.foreign", site, rule)) == {status}


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, Status.PASS),
        ({"line": "PasswordAuthentication yes"}, Status.FAIL),
        ({"lines": 2}, Status.FAIL),
        ({"kind": "link"}, Status.FAIL),
        ({"at": "/etc/sudoers.d/50-cloud-init.conf"}, Status.FAIL),
    ],
)
def test_a_file_that_only_forbids_passwords_is_no_strangers(
    change: dict[str, Any], status: Status
) -> None:
    settings = {
        "at": "/etc/ssh/sshd_config.d/50-cloud-init.conf",
        "line": "PasswordAuthentication no",
    }
    found = {**STRANGER, **settings, "lines": 1, **change}
    assert statuses(foreign_of("base.foreign", SITE, found)) == {status}


def test_hosts_whose_own_times_differ_fail_though_each_follows_its_source() -> None:
    late = facts(clock={"time": 1200.0})
    (result,) = judge("base.clock_spread", late, facts(host="head", clock={"time": 1000.0}))
    assert result.status is Status.FAIL
    assert result.cause == "head and gpu-1 are 200 s apart by their own clocks"
    assert result.names == ("head", "gpu-1")
    times = {"head": 1000.0, "gpu-1": 1200.0, "gpu-2": 1000.0}
    seen = {name: facts(host=name, clock={"time": time}) for name, time in times.items()}
    (result,) = said_by("base.clock_spread", View(PROFILE, site_of(*seen), seen))
    assert result.names == ("gpu-1",)
    near = facts(clock={"time": 1030.0})
    (result,) = judge("base.clock_spread", near, facts(host="head", clock={"time": 1000.0}))
    assert result.status is Status.PASS
