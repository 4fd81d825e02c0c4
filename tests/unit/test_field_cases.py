"""Twenty public reports: the program judges the input of each as an engineer expects. CASES names the test of each."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from appliance.adapters.process import Completed
from appliance.adapters.process import run as run_program
from appliance.adapters.redfish import Redfish
from appliance.benchmarks import ceilings
from appliance.benchmarks.ceilings import Most
from appliance.benchmarks.dcgm import run as dcgm
from appliance.benchmarks.jobs import HostOutput
from appliance.benchmarks.nccl import run as nccl
from appliance.bmc.media import Drive, Source
from appliance.checks.causes import explain
from appliance.checks.check import View
from appliance.cli.main import cli
from appliance.config.finding import InvalidConfig
from appliance.config.load import load_site
from appliance.config.new_secrets import write_secrets
from appliance.engine.look.gather import Unanswered, gather
from appliance.engine.run.diagnose import diagnose
from appliance.errors import ConfigError, ConnectionFailed
from appliance.lab import sysfs
from appliance.lab.spec import RackSpec, numbered
from appliance.models.facts import HostFacts
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Status, place
from appliance.probe.ask import Ask
from appliance.probe.collectors import access, units
from appliance.report.findings import findings
from appliance.stages.base.stage import STAGE as BASE
from appliance.stages.catalog import CAUSES
from appliance.stages.fabric.collect import adapters
from appliance.stages.gpu.collect import xids
from appliance.stages.observe.collect import collect as collect_observe
from appliance.stages.slurm.stage import STAGE as SLURM
from appliance.watch import rules
from tests.redfish_server import QUICK, Bmc, Handler, serve, tree
from tests.support import gpu_facts
from tests.support.engine_fakes import FakeHosts
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.probe_trees import Grow, grow
from tests.support.profiles import profile_of
from tests.support.sites import site_of
from tests.support.watch_expects import EXPECTS
from tests.unit.bmc.conftest import pem

__all__ = ["grow", "pem"]

DATA = Path(__file__).parents[1] / "data/field"
CASES = {
    "01-dcgm-pass-with-error": "test_a_pass_with_an_error_is_a_warning",
    "05-nccl-zero-sizes": "test_rows_without_a_size_are_no_reason_to_refuse_a_table",
    "06-nccl-error-column": "test_a_rounding_difference_is_no_wrong_value",
    "07-xid-nvlink5-nonfatal": "test_an_nvlink_5_message_takes_a_host_out_only_if_fatal",
    "09-xid-45-hides-79": "test_the_fatal_message_stands_above_the_one_that_follows_it",
    "11-pod-network-cilium": "test_a_pod_network_with_too_few_blocks_is_refused_for_cilium",
    "13-bashrc-noise": "test_what_a_login_script_prints_costs_no_host",
    "15-slurm-cluster-rename": "test_another_name_of_the_cluster_is_named_by_the_plan",
    "17-extra-ethernet-adapters": "test_a_ninth_adapter_is_one_too_many_and_drains_nobody",
    "18-gres-file-missing": "test_a_missing_device_file_and_the_daemon_that_ends_are_named",
    "19-munge-other-key": "test_munged_with_another_key_than_its_file_is_named",
    "21-supermicro-x10-empty-answer": "test_an_empty_drive_that_answers_nothing_is_a_drive",
    "22-vllm-append": "test_the_option_that_wrote_two_documents_is_named",
    "26-bridge-duplicate-tag": "test_two_times_of_one_step_are_refused",
    "27-dmidecode-gib": "test_both_spellings_of_a_size_give_one_bound",
    "29-uid-taken": "test_the_owner_of_a_uid_is_named_before_anything_changes",
    "30-port-9090": "test_the_program_that_holds_a_port_is_named",
    "33-redfish-two-nodes": "test_a_bmc_of_two_machines_is_refused_in_any_order",
    "35-account-shell-sudo": "test_shell_sudoers_line_and_resolver_are_named",
    "39-dell-cd": "test_an_idrac_starts_from_its_virtual_disc",
}

ON_RACK = {
    "19-munge-other-key": "munge-with-another-key",
    "30-port-9090": "port-of-prometheus-held",
}
"""Faults of tests/integration/test_night.py, which plants the case on a rack and types the remedy."""


def test_each_case_has_its_test() -> None:
    assert len(CASES) == len(set(CASES.values())) == 20
    assert [name for name in CASES.values() if name not in globals()] == []
    assert {folder.name for folder in DATA.iterdir() if folder.is_dir()} <= CASES.keys()
    night = (Path(__file__).parents[1] / "integration/test_night.py").read_text()
    assert [name for name in ON_RACK.values() if f'"{name}": Fault(' not in night] == []
    assert ON_RACK.keys() <= CASES.keys()


def given(case: str, name: str) -> str:
    return (DATA / case / name).read_text()


def invoked(*argv: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, argv, standalone_mode=False)
    if isinstance(done.exception, ConfigError):
        return 2, f"{done.exception.message} {done.exception.hint}"
    return done.return_value, " ".join(done.output.split())


def test_a_pass_with_an_error_is_a_warning() -> None:
    """NVIDIA/DCGM#284: the memory test could not allocate its memory, and ends with Pass."""
    said = HostOutput(given("01-dcgm-pass-with-error", "diag.json"), 0)
    gpus = ["gpu-1/GPU 0", "gpu-1/GPU 1"]
    found = {result.target: result for result in dcgm.judge("gpu-1", said, len(gpus), 3)}
    assert [found[gpu].status for gpu in gpus] == [Status.PASS, Status.WARN]
    assert "Couldn't allocate at least 75.0% of GPU memory" in found[gpus[1]].cause
    assert "error 36" in found[gpus[1]].cause


def measured(case: str, name: str, gpus: int, least: float) -> CheckResult:
    said = HostOutput(given(case, name), 0)
    found = nccl.measured_of(said, gpus, ["gpu-1", "gpu-2"])
    at, bound = place("cluster", "2 hosts"), Limit(value=least, source="this test")
    first, *_ = nccl.judge("nccl.cluster", at, said, found, bound, "", Most(200.0, "the wire"))
    return first


@pytest.mark.parametrize(
    ("name", "gpus", "busbw"),
    [("all_gather-2-hosts.txt", 8, 178.03), ("real-all_gather-2x1-B200.txt", 1, 36.67)],
)
def test_rows_without_a_size_are_no_reason_to_refuse_a_table(
    name: str, gpus: int, busbw: float
) -> None:
    """NVIDIA/nccl-tests#128: sizes below one element for each rank are printed as 0."""
    found = measured("05-nccl-zero-sizes", name, gpus, busbw - 1)
    assert (found.status, found.value) == (Status.PASS, busbw)
    assert measured("05-nccl-zero-sizes", name, gpus, busbw + 1).status is Status.FAIL


def test_a_rounding_difference_is_no_wrong_value() -> None:
    """NVIDIA/nccl-tests#176: older releases print the largest difference, not a count."""
    found = measured("06-nccl-error-column", "all_reduce-old.txt", 8, 170.0)
    assert (found.status, found.value) == (Status.PASS, 178.03)


def logged(case: str, name: str) -> HostFacts:
    """Facts of a host with these lines in its kernel log; the GPU at 4e:00.0 is GPU 3."""
    texts = given(case, name).splitlines()
    records = [f"4,{n},{1_000_000 + n},-;{text}" for n, text in enumerate(texts)]
    events = xids.latest(xids.events(records, 61.0))
    assert len(events) == len(texts)
    third = gpu_facts.gpu(3, bus_id="00000000:4E:00.0")
    ids = [*map(gpu_facts.bus, range(3)), "0000:4e:00.0"]
    return gpu_facts.facts("gpu-1", third, xid_events=events, pci_gpu_ids=ids)


def drains(host: HostFacts) -> list[str]:
    """What the host's own watch would take it out of work for, of Xids."""
    told = {"gpus": {"devices": [{"index": 3, "name": "A100", "bus_id": "00000000:4E:00.0"}]}}
    told["xid_events"] = json.loads(host.model_dump_json())["xid_events"]
    expects = {"xids": "79", "xids_by_severity": "144 145 146 147 148 149 150", "xid_hours": 24.0}
    return [str(cause) for cause in rules._xids(told, expects)]


def test_an_nvlink_5_message_takes_a_host_out_only_if_fatal() -> None:
    """leptonai/gpud#1160: Xid 144 to 150 say Nonfatal or Fatal."""
    case = "07-xid-nvlink5-nonfatal"
    nonfatal, fatal = logged(case, "kmsg.lines"), logged(case, "fatal.kmsg.lines")
    result = gpu_facts.one("gpu.xid", nonfatal)
    assert (result.status, result.target) == (Status.WARN, "gpu-1/GPU 3")
    assert "link 13" in result.cause
    assert drains(nonfatal) == []
    (first,) = findings(explain(gpu_facts.judge("gpu.xid", gpu_facts.view(fatal)), CAUSES))
    assert (first.result.status, first.result.value) == (Status.FAIL, 149)
    assert "link 0" in first.result.cause
    (why,) = drains(fatal)
    assert why.startswith("gpu.xid GPU 3: Xid 149")


def test_the_fatal_message_stands_above_the_one_that_follows_it() -> None:
    """NVIDIA/open-gpu-kernel-modules#1150; tests/contract/test_nothing_lost.py has the formats."""
    seen = logged("09-xid-45-hides-79", "kmsg.lines")
    (finding,) = findings(explain(gpu_facts.judge("gpu.xid", gpu_facts.view(seen)), CAUSES))
    assert (finding.result.status, finding.result.value) == (Status.FAIL, 79)
    assert "reboot" in finding.result.fix
    assert [one.value for one in finding.explains] == [45]


@pytest.mark.parametrize(("network", "refused"), [("cilium", True), ("calico", False)])
def test_a_pod_network_with_too_few_blocks_is_refused_for_cilium(
    network: str, refused: bool, tmp_path: Path
) -> None:
    """kubernetes-sigs/kubespray#9150: 30 hosts, and a /20 for their pods."""
    write_secrets(tmp_path / "secrets", slurm=True, kubernetes=True)
    (tmp_path / "secrets/id_ed25519").touch(mode=0o600)
    (tmp_path / "known_hosts").write_text("")
    text = given("11-pod-network-cilium", "site.yml")
    (tmp_path / "site.yml").write_text(text.replace("network: cilium", f"network: {network}"))
    said = []
    try:
        load_site(tmp_path)
    except InvalidConfig as error:
        said = [f"{one.key} {one.message}" for one in error.findings]
    blocks = "kubernetes.pod_network 10.244.0.0/20 has 16 blocks of /24, but 30 nodes need one each"
    assert bool([one for one in said if one.startswith(blocks)]) is refused, said


def answered(said: str, error: str = "", code: int = 0) -> HostFacts | Unanswered:
    """What becomes of a host whose login answers this."""

    def answer(host: str, argv: Sequence[str]) -> Completed:
        return Completed(tuple(argv), code, said, error)

    hosts = FakeHosts()
    hosts.answer = answer
    found = gather(hosts, {"gpu-1": {}})
    return found.facts.get("gpu-1") or found.unanswered["gpu-1"]


def test_what_a_login_script_prints_costs_no_host() -> None:
    """ansible/ansible#14503: one echo in .bashrc, or in a trap that it sets."""
    sound = facts_of("gpu-1").model_dump_json()
    assert isinstance(answered(f"*** Welcome ***\n{sound}\n"), HostFacts)
    assert isinstance(answered(f"{sound}\n*** Bye ***\n"), HostFacts)
    lost = answered("*** Welcome ***\n")
    assert isinstance(lost, Unanswered)
    assert "a login script printed '*** Welcome ***'" in lost.cause


def test_another_name_of_the_cluster_is_named_by_the_plan() -> None:
    """Azure/az-hop#1335: slurmctld compares ClusterName with its state, and ends."""
    site = site_of("head", "gpu-1", slurm={"cluster": "oslo"})
    facts = {"head": facts_of("head", slurm={"controller": "up", "cluster": "bugs"})}
    why = SLURM.blocked_by(site, site.hosts[0], facts)
    assert 'slurm.cluster is "oslo", but slurmctld has the state of "bugs"' in why
    assert "set slurm.cluster to bugs, or end all jobs" in why
    assert "accounting keeps the jobs and limits of bugs" in why


RACK = numbered(RackSpec(hosts=2), 1, {})


def ports(link_layer: str, folder: Path) -> list[dict[str, Any]]:
    """What the probe reads of a host with eight linked adapters and the ninth of the case."""
    sysfs.write(folder, RACK, RACK.host("gpu-1"))
    top = folder / sysfs.ROOT
    for port in top.glob("class/infiniband/*/ports/1"):
        (port / "state").write_text("4: ACTIVE\n")
        (port / "phys_state").write_text("5: LinkUp\n")
    plant = given("17-extra-ethernet-adapters", "plant.sh")
    script = plant.replace("cd /var/lib/appliance-lab/sys", f"cd '{top}'")
    run_program(["sh", "-c", script, "plant", link_layer])
    ask = Ask({}, str(folder))
    ask.sys = str(top)
    return adapters.ports(ask)


@pytest.mark.parametrize("link_layer", ["InfiniBand", "Ethernet"])
def test_a_ninth_adapter_is_one_too_many_and_drains_nobody(link_layer: str, tmp_path: Path) -> None:
    """leptonai/gpud#200: an adapter for storage, which has no cable of the fabric."""
    found = ports(link_layer, tmp_path)
    assert len(found) == 9
    profile = profile_of(fabric={"link_layer": "InfiniBand", "ports": 8, "rate_gbps": 200})
    facts = {name: facts_of(name, ports=found) for name in ("gpu-1", "gpu-2")}
    seen = View(profile, site_of("head", "gpu-1", "gpu-2"), facts)
    (count,) = said_by("fabric.ports", seen, "gpu-1")
    if link_layer == "Ethernet":
        assert count.status is Status.PASS
    else:
        assert (count.status, count.target) == (Status.WARN, "gpu-1/mlx5_8")
        assert "9 InfiniBand ports, the class has 8: mlx5_8 has no link" in count.cause
        assert "set LINK_TYPE_P1=2" in count.fix
    assert {r.status for r in said_by("fabric.state", seen, "gpu-1")} == {Status.PASS}
    wanted = {**EXPECTS, "ports": 8}
    assert list(rules._ports({"ports": found}, wanted)) == []
    first = {**found[0], "state": "1: DOWN", "physical": "2: Polling"}
    assert list(rules._ports({"ports": [first, *found[1:]]}, wanted)) != []


def unit_of(name: str, count: int, ago: float, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the probe tells of an active unit that systemd restarted."""
    monkeypatch.setattr("time.monotonic", lambda: 1000.0)
    since = int((1000.0 - ago) * 1e6)
    shown = f"LoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\nNRestarts={count}\nActiveEnterTimestampMonotonic={since}\n"
    known = units.parse([name], shown)
    assert known[name]["active"] == "active"
    found: dict[str, str] = units.collect(Ask({"units": [name]}, "/"), known)["units"][name]
    return found


def test_a_missing_device_file_and_the_daemon_that_ends_are_named(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """awslabs/awsome-distributed-ai#195: slurmd waits 20 s for a device of gres.conf, and ends."""
    nodes = {f"/dev/nvidia{name}": "" for name in [*range(7), "ctl"]}
    root = grow({**nodes, "/etc/passwd": "root:x:0:0::/root:/bin/sh\n", "/etc/group": ""})
    gpus = {"driver": "580", "nvml": "13", "devices": [gpu_facts.gpu(i, minor=i) for i in range(8)]}
    slurmd = unit_of("slurmd.service", 1, 10.0, monkeypatch)
    read = access.collect(Ask({}, root))["access"]
    facts = facts_of("gpu-1", access=read, gpus=gpus, units={"slurmd.service": slurmd})
    seen = View(profile_of(gpu={"count": 8}), site_of("head", "gpu-1"), {"gpu-1": facts})
    judged = [*said_by("base.access", seen, "gpu-1"), *said_by("slurm.daemons", seen, "gpu-1")]
    told = {f.result.cause: f for f in findings(explain(judged, CAUSES))}
    gone = next(told[cause] for cause in told if cause.startswith("/dev/nvidia7 is missing"))
    (daemon,) = [one for one in gone.explains if one.id == "slurm.daemons"]
    assert (gone.result.status, daemon.status) == (Status.FAIL, Status.FAIL)
    assert "it ended, and systemd restarted it once, 10 s ago" in daemon.cause


@pytest.mark.parametrize(("count", "ago"), [(0, 10.0), (3, 31.0)])
def test_a_unit_that_goes_on_running_is_active(
    count: int, ago: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert unit_of("a.service", count, ago, monkeypatch)["active"] == "active"


KEY = "a key of no host, for a test of this program"
CREDENTIAL = "MUNGE:AwAFAADy21Af8/39PG+Ky2VRn8J9vMUAsIVx2VHOl0SVftpM5cnjS5JtYjB3BH8AAAFrDpYoAAABLAAAAAAAAAAA//////////8AAAAA:\n"
"""Real: munge 0.5.15 of Debian 12 with KEY and the options access.PLAIN, 2026-12-01."""


def test_munged_with_another_key_than_its_file_is_named(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dun/munge#62: the file was put right with its old date, the daemon was not restarted."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    tree_of = {
        "/etc/passwd": "root:x:0:0::/root:/bin/sh\nmunge:x:0:0::/:/bin/false\n",
        "/etc/group": "",
        "/usr/bin/munge": {"when": {}},
        "/usr/bin/setpriv": {"when": {" munge --no-input --cipher=none": CREDENTIAL}},
    }
    facts = {}
    for host, key in (("head", KEY), ("gpu-1", KEY), ("gpu-2", KEY.upper())):
        root = grow({**tree_of, "/etc/munge/munge.key": key})
        told = access.collect(Ask({}, root))["access"]
        assert (told["munge"], told["munge_uses_key"]) == ("", key == KEY)
        running = {"munge.service": gpu_facts.ACTIVE}
        facts[host] = facts_of(host, access=told, units=running)
    seen = View(profile_of(), site_of("head", "gpu-1", "gpu-2"), facts)
    found = {result.target: result for result in said_by("slurm.munge", seen)}
    assert [found[host].status for host in ("head", "gpu-1")] == [Status.PASS, Status.PASS]
    assert "munged uses another key than its file holds" in found["gpu-2"].cause
    assert found["gpu-2"].fix == "on gpu-2: systemctl restart munge"


@pytest.mark.parametrize(
    "damage", ["", "MUNGE::", "MUNGE:????:", CREDENTIAL.replace("AwAF", "BAAF")]
)
def test_what_is_no_credential_tells_nothing_of_a_key(damage: str) -> None:
    with pytest.raises(ValueError, match=r"credential|padding|base64|Only"):
        access.signed_with(damage, KEY.encode())
    assert access.signed_with(CREDENTIAL, KEY.encode())


def test_where_no_credential_agrees_no_key_is_blamed() -> None:
    """Another release may derive its keys in another way."""
    running = {"munge.service": gpu_facts.ACTIVE}
    told = {"munge": "", "munge_uses_key": False}
    facts = {name: facts_of(name, access=told, units=running) for name in ("head", "gpu-1")}
    seen = View(profile_of(), site_of("head", "gpu-1"), facts)
    assert {result.status for result in said_by("slurm.munge", seen)} == {Status.PASS}


def nothing(handler: Handler) -> None:
    handler.raw(200, b"", {"Content-Type": "application/json"})


def media(documents: dict[str, Any], system: str) -> str:
    """Gives a machine one virtual drive; returns its path."""
    at = f"{system}/VirtualMedia"
    documents[system]["VirtualMedia"] = {"@odata.id": at}
    documents[at] = {"Members": [{"@odata.id": f"{at}/1"}]}
    actions = {
        f"#VirtualMedia.{verb}Media": {"target": f"{at}/1/Actions/VirtualMedia.{verb}Media"}
        for verb in ("Insert", "Eject")
    }
    kinds = ["CD", "DVD", "USBStick"]
    documents[f"{at}/1"] = {"@odata.id": f"{at}/1", "MediaTypes": kinds, "Actions": actions}
    return f"{at}/1"


def told(bmc: Bmc) -> list[tuple[str, Any]]:
    """What was written to a BMC, apart from sessions."""
    paths = [path for verb, path in bmc.asked if verb in {"POST", "PATCH"}]
    return list(zip((p for p in paths if "Sessions" not in p), bmc.bodies, strict=True))


def system_of(documents: dict[str, Any]) -> str:
    start = "/redfish/v1/Systems/"
    return next(p for p in documents if p.startswith(start) and p.count("/") == 4)


def test_an_empty_drive_that_answers_nothing_is_a_drive(pem: Path) -> None:
    """A Supermicro X10 answers 200 without a body while its drive is empty."""
    documents = tree("supermicro-h12")
    drive = media(documents, system_of(documents))
    with serve(Bmc(documents, pem, before={drive: nothing})) as bmc:
        with Redfish(bmc.known(), QUICK) as controller:
            Drive(controller).insert("https://10.0.0.5:8443/m/x.iso", "PEM")
        assert told(bmc)[-1][0] == f"{drive}/Actions/VirtualMedia.InsertMedia"


def test_the_option_that_wrote_two_documents_is_named() -> None:
    """vllm bench serve --append-result."""
    file = DATA / "22-vllm-append/appended.json"
    code, said = invoked("validate", "serving-results", str(file))
    assert code == 2
    assert "several documents, as vllm bench serve --append-result writes them" in said
    assert "use a file with one run" in said


def test_two_times_of_one_step_are_refused() -> None:
    """NVIDIA-NeMo/Megatron-Bridge#5997: the mean of the interval, then the last step's time."""
    folder = DATA / "26-bridge-duplicate-tag"
    code, said = invoked("validate", "gpt3", "--from-logs", str(folder))
    assert code == 3
    assert "step 5 has two times, 130 s and 85 s" in said
    assert "PASSED" not in said


@pytest.mark.parametrize("release", ["3.6", "3.7"])
def test_both_spellings_of_a_size_give_one_bound(release: str, tmp_path: Path) -> None:
    """noonghunna/club-3090#1130: dmidecode 3.7 writes GiB."""
    program = tmp_path / "dmidecode"
    program.write_text(f"#!/bin/sh\ncat '{DATA}/27-dmidecode-gib/dmidecode-{release}.txt'\n")
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    kept = run_program(["sh", "-c", ceilings.ASK], env={"PATH": path}, check=False).stdout
    bound = ceilings.of_memory(kept, 60 << 30)
    assert isinstance(bound, Most)
    assert bound.value == pytest.approx(38.4)


def test_the_owner_of_a_uid_is_named_before_anything_changes(grow: Grow) -> None:
    """swarmlet/swarmlet#90: the uid of a user of the site is a local account's."""
    passwd = "root:x:0:0::/root:/bin/sh\ncarol:x:2001:2001::/home/carol:/bin/sh\n"
    root = grow({"/etc/passwd": passwd, "/etc/group": "carol:x:2001:\n"})
    ask = Ask({"numbers": {"uid": ["2001 bob"], "gid": ["2001 bob"]}}, root)
    facts = {"gpu-1": facts_of("gpu-1", access=access.collect(ask)["access"])}
    site = site_of("gpu-1")
    why = BASE.blocked_by(site, site.hosts[0], facts)
    assert why.startswith("uid 2001 of bob belongs to carol on gpu-1")
    assert "usermod -u NUMBER carol" in why


def test_the_program_that_holds_a_port_is_named(grow: Grow) -> None:
    """red-hat-storage/cockpit-ceph-installer#25: Cockpit listens on 9090."""
    row = "  0: 00000000:2382 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 77 1 0 100 0 0 10 0\n"
    root = grow(
        {
            "/usr/bin/prometheus": {"when": {}},
            "/proc/net/tcp": "  sl  local_address\n" + row,
            "/proc/41/comm": "cockpit-tls\n",
            "/proc/41/status": "Uid:\t0\t0\t0\t0\n",
            "/proc/41/fd/3": {"link": "socket:[77]"},
        }
    )
    nobody = ("127.0.0.1", 9)
    ports = collect_observe(Ask({}, root), nobody, nobody)["held_ports"]
    unit = {"load": "loaded", "active": "failed", "sub": "failed", "enabled": "enabled"}
    facts = facts_of("head", held_ports=ports, units={"prometheus.service": unit})
    seen = View(profile_of(), site_of("head"), {"head": facts})
    causes = [result.cause for result in said_by("observe.server", seen, "head")]
    assert any("port 9090 is held by cockpit-tls (process 41)" in cause for cause in causes)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_bmc_of_two_machines_is_refused_in_any_order(is_first: bool, pem: Path) -> None:
    """openbmc/bmcweb#266: a chassis of two nodes behind one BMC. Power and media make the same choice."""
    documents = tree("openbmc")
    system = system_of(documents)
    other = system.rpartition("/")[0] + "/node2"
    documents[other] = {**documents[system], "@odata.id": other, "Id": "node2"}
    listed = documents["/redfish/v1/Systems"]["Members"]
    listed.insert(0 if is_first else len(listed), {"@odata.id": other})
    with (
        serve(Bmc(documents, pem)) as bmc,
        Redfish(bmc.known(), QUICK) as controller,
        pytest.raises(ConnectionFailed, match="shows 2 machines") as found,
    ):
        Drive(controller)
    assert "node2" in found.value.message
    assert "hosts[].bmc.address" in found.value.hint


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        ("Unmatched '''.", "chsh -s /bin/sh"),
        ("sudo: sorry, you must have a tty to run sudo", "!requiretty"),
        ("", "ForceCommand"),
    ],
)
def test_shell_sudoers_line_and_resolver_are_named(error: str, fix: str) -> None:
    """ansible/ansible#13459, #20858: csh, requiretty, a forced command; sudo that waits for a resolver."""
    lost = answered("", error, 1)
    assert isinstance(lost, Unanswered)
    assert fix in lost.fix
    assert "bug" not in lost.fix
    said = "Task failed: Timeout (12s) waiting for privilege escalation prompt: "
    slow = diagnose("node-b03", "Gathering Facts", said)
    assert slow.cause.startswith("sudo did not answer in time")
    assert "/etc/resolv.conf of node-b03" in slow.fix
    assert "/etc/hosts" in slow.fix


def test_an_idrac_starts_from_its_virtual_disc(pem: Path) -> None:
    """dell/iDRAC-Redfish-Scripting#90: Cd is the built-in drive, or the disk."""
    documents = tree("dell-idrac9")
    media(documents, system_of(documents))
    with serve(Bmc(documents, pem)) as bmc:
        with Redfish(bmc.known(), QUICK) as controller:
            drive = Drive(controller)
            drive.insert("https://10.0.0.5:8443/m/x.iso", "PEM")
            drive.start_once(Source.DISC)
        (_, first), (_, second) = told(bmc)
    assert first["Image"] == "https://10.0.0.5:8443/m/x.iso"
    own = {"ServerBoot.1.BootOnce": "Enabled", "ServerBoot.1.FirstBootDevice": "VCD-DVD"}
    assert second == {"Attributes": own}
