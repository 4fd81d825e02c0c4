"""A deployment on machines: their own kernels, NFS, control groups of version 2, reboots and power cuts.

Two machines that ``provision install`` gave their system, which is kept for the next run. Their GPUs are simulated, as a
rack's are; all else of them is real. A module's story is told in order.
"""

import json
import subprocess  # noqa: TID251 - a power cut in the middle of the program's work
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters.process import Completed, run
from appliance.benchmarks.perftest import gates
from appliance.benchmarks.perftest import run as perftest
from appliance.config import data, document
from appliance.config.load import load_profile
from appliance.lab import repository, vms
from appliance.lab.hardware import of_profile
from appliance.lab.spec import RackHost
from appliance.models.plan import Plan
from tests.support.machine_hall import hall, shelf
from tests.support.machine_site import Hall, await_ssh, install_pair, kept_image, pair

pytestmark = pytest.mark.machines

DEPLOY_S = 3000.0
PROFILE = """version: 1
name: hall
title: Machines of the hall, two PCIe GPUs
hardware:
  gpu:
    count: 2
    models: [NVIDIA A100 80GB PCIe]
    memory_gib: 80
    interconnect: pcie
    pcie_generation: 4
  fabric: {link_layer: none, ports: 0, rate_gbps: 0}
  host: {sockets: 1, cores: 2, memory_gib: 3, numa_nodes: 1, system_disk_gib: 8, scratch_disk_gib: 0}
software:
  operating_systems: [debian-12]
  driver_branch: "580"
  cuda: "13.0"
stages: {slurm_memory_reserve_mib: 1024}
"""
MORE = """repositories:
  gpu: {{mirror: {mirror}, key: {key}, fingerprint: {fingerprint}}}
storage:
  exports: [{{path: /srv/home}}]
  mounts: [{{export: /srv/home, at: /home}}]
simulated: [gpu, fabric]
"""
HOG = "python3 -c 'x = b\"1\" * (700 << 20); print(len(x))'"
NEIGHBOUR = "python3 -c 'import time; x = b\"1\" * (50 << 20); time.sleep(40); print(len(x))'"
OPENED = """python3 -c '
import errno, os
for name in ("nvidia0", "nvidia1"):
    try:
        os.close(os.open(f"/dev/{name}", os.O_RDWR))
        print(name, "opened")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
'"""


class Deployed(Hall):
    """The pair, with what stands in for GPUs and their maker's repository."""

    def __init__(self, folder: Path, image: Path) -> None:
        roles = pair(folder)
        self.head, self.gpu = roles
        self.profile_file = folder / "hall.yml"
        self.profile_file.write_text(PROFILE)
        super().__init__(folder, image, roles, profile=str(self.profile_file))
        hardware = of_profile(load_profile(self.profile))
        self.shelf = shelf(folder, self.profile, hardware)

    def offer_drivers(self) -> None:
        """NVIDIA's packages, simulated, from a repository of the hall's own."""
        repository.start(self.shelf)
        self.more = MORE.format(
            mirror=repository.address(self.shelf),
            key=repository.KEY,
            fingerprint=repository.fingerprint(self.shelf),
        )

    def plug_in_gpus(self) -> None:
        """What stands in for the compute machine's GPUs and for the part of its kernel that knows them. It is off."""
        host = RackHost(self.gpu.name, ("gpu",), self.gpu.address, self.gpu.name, self.folder)
        self.gpu.hardware.write_text(vms.hardware(self.shelf, host))

    def deploy(self, *words: str) -> Completed:
        """A deployment; its time is printed."""
        began = time.monotonic()
        done = run(self.command("deploy", "--yes", *words), check=False, timeout=DEPLOY_S)
        print(f"deploy {' '.join(words)}: {time.monotonic() - began:.0f} s")  # noqa: T201
        print(done.stdout[-6000:], done.stderr[-3000:])  # noqa: T201
        return done

    def job(self, words: str, command: str) -> str:
        """Submits a job of root's, whom the NFS server takes for nobody; returns its number."""
        quoted = command.replace("'", "'\\''")
        places = "--chdir=/ --output=/root/job-%j.out"
        return self.ssh(self.head, f"sbatch --parsable {places} {words} --wrap '{quoted}'")

    def said(self, job: str) -> str:
        """What a job printed."""
        return self.ssh(self.gpu, f"cat /root/job-{job}.out")

    def ended(self, job: str) -> str:
        """How a job ended, by Slurm's accounting."""
        ends = time.monotonic() + 300
        while time.monotonic() < ends:
            told = self.ssh(self.head, f"sacct -j {job} -X -n -P -o State,End")
            state, _, at = told.partition("|")
            if at and at != "Unknown":
                return state
            time.sleep(3)
        raise AssertionError(f"job {job} has not ended: {told}")


def fabric_packages() -> list[str]:
    """What stage fabric installs for RDMA on Debian."""
    content = document.read(data.root() / "roles/fabric/vars/Debian.yml").data
    assert isinstance(content, dict)
    return list(content["__fabric_verbs_packages"])


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    with kept_image() as folder:
        yield folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, image: Path) -> Iterator[Deployed]:
    made = Deployed(tmp_path_factory.mktemp("deployed"), image)
    if not made.take():
        install_pair(made.folder / "first", image)
        assert made.take()
    made.plug_in_gpus()
    with hall(made.folder, tuple(made.machines)) as raised:
        made.offer_drivers()
        try:
            made.write(raised)
            made.start("head", "gpu-1")
            yield made
        finally:
            repository.stop(made.shelf)


def test_a_reboot_that_a_stage_needs_is_named_made_and_survived(site: Deployed) -> None:
    """The kernel has the free driver, and does not let it go: only another start is without it."""
    planted = "/etc/modprobe.d/planted.conf"
    site.ssh(site.gpu, f"echo remove nouveau /bin/false > {planted}")
    site.ssh(site.gpu, "echo nouveau > /etc/modules-load.d/planted.conf && modprobe nouveau")
    before = {machine: site.boot(machine) for machine in site.machines}
    plan = Plan.model_validate_json(site.appliance("plan", "--until", "gpu", "--json").stdout)
    assert [(cell.stage, cell.host) for cell in plan.cells if cell.reboot] == [("gpu", "gpu-1")]
    assert site.deploy("--until", "gpu").returncode == 0
    assert site.boot(site.gpu) != before[site.gpu]
    assert site.boot(site.head) == before[site.head]
    assert site.ssh(site.gpu, "test -d /sys/module/nouveau || echo gone") == "gone"
    assert site.ssh(site.gpu, "nvidia-smi -L | wc -l") == "2"
    site.ssh(site.gpu, f"rm {planted} /etc/modules-load.d/planted.conf")


def test_storage_is_served_and_mounted_by_kernels(site: Deployed) -> None:
    done = site.deploy("--until", "storage")
    assert done.returncode == 0
    mounted = site.ssh(site.gpu, "findmnt -no FSTYPE,SOURCE /home").split()
    assert mounted == ["nfs4", f"{site.head.address}:/srv/home"]
    assert "nfsd" in site.ssh(site.head, "cat /proc/filesystems")
    assert site.ssh(site.head, "cat /proc/fs/nfsd/threads") != "0"
    site.ssh(site.gpu, "mkdir -m 1777 /home/jobs && echo written > /home/jobs/file && sync")
    assert site.ssh(site.head, "cat /srv/home/jobs/file") == "written"


def test_a_server_that_reboots_is_waited_for(site: Deployed) -> None:
    """The mount is hard: who writes meanwhile is held up, and loses nothing."""
    before = site.boot(site.head)
    site.ssh(site.head, "systemctl reboot", check=False)
    site.ssh(site.gpu, "echo later > /home/jobs/later && sync /home/jobs/later")
    assert site.ssh(site.head, "cat /srv/home/jobs/later") == "later"
    assert site.boot(site.head) != before


def test_a_power_cut_in_the_middle_costs_one_host_and_the_next_run_ends_it(site: Deployed) -> None:
    with (site.folder / "cut.log").open("w") as log:
        running = subprocess.Popen(site.command("deploy", "--yes", "--until", "slurm"), stdout=log, stderr=log)  # fmt: skip
    ends = time.monotonic() + DEPLOY_S
    while not site.ssh(site.gpu, "ls /usr/sbin/slurmd* 2>/dev/null; true"):
        assert running.poll() is None, (site.folder / "cut.log").read_text()[-3000:]
        assert time.monotonic() < ends
        time.sleep(0.5)
    site.order(site.gpu, "ForceOff")
    site.order(site.gpu, "On")
    code = running.wait(DEPLOY_S)
    said = (site.folder / "cut.log").read_text()
    print(said[-4000:])  # noqa: T201
    assert code == 1
    assert "gpu-1" in said
    await_ssh(site.gpu)
    assert site.deploy("--until", "slurm").returncode == 0


def test_a_job_over_its_memory_is_killed_and_its_neighbour_is_not(site: Deployed) -> None:
    assert site.ssh(site.gpu, "stat -fc %T /sys/fs/cgroup") == "cgroup2fs"
    neighbour = site.job("-n1 --mem=300M", NEIGHBOUR)
    hog = site.job("-n1 --mem=300M", HOG)
    assert site.ended(hog) == "OUT_OF_MEMORY"
    assert site.ended(neighbour) == "COMPLETED"
    assert site.said(neighbour) == str(50 << 20)
    assert site.ssh(site.head, "sinfo -h -o %T") == "idle"


def test_a_job_opens_the_devices_of_its_own_gpus_alone(site: Deployed) -> None:
    """Nobody drives these devices: who may open one is told ENXIO, who may not EPERM."""
    job = site.job("-n1 --mem=100M --gres=gpu:1", OPENED)
    assert site.ended(job) == "COMPLETED"
    seen = site.said(job).splitlines()
    assert sorted(line.split()[1] for line in seen) == ["ENXIO", "EPERM"]


def test_soft_roce_between_the_machines_is_run_and_read(site: Deployed) -> None:
    """By the script of ``validate perftest``, which Slurm would start on two GPU hosts; here is one of them."""
    names = " ".join(fabric_packages())
    for machine in site.machines:
        site.ssh(machine, f"DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends {names} >/dev/null")  # fmt: skip
        device = "$(ip -o route get 10.94.7.1 | sed 's/.* dev \\([^ ]*\\) .*/\\1/')"
        site.ssh(machine, f"modprobe rdma_rxe && rdma link add rxe0 type rxe netdev {device}")
    script = perftest.SCRIPT.replace("'", "'\\''")
    words = f"3 head {site.head.address} rxe0:"
    serving = subprocess.Popen(site.way(site.head, f"SLURMD_NODENAME=head sh -c '{script}' sh {words}"))  # fmt: skip
    said = site.ssh(site.gpu, f"SLURMD_NODENAME=gpu-1 sh -c '{script}' sh {words}")
    assert serving.wait(120) == 0
    values, why = perftest.parts(said)
    print(values)  # noqa: T201
    assert why == ""
    assert set(values) == {(check, "rxe0") for check in (gates.BW, gates.LAT)}
    assert all(value > 0 for value in values.values())


def test_after_a_reboot_of_both_all_is_there_and_nothing_is_to_do(site: Deployed) -> None:
    before = {machine: site.boot(machine) for machine in site.machines}
    for machine in site.machines:
        site.ssh(machine, "systemctl reboot", check=False)
    time.sleep(20)
    for machine in site.machines:
        await_ssh(machine)
        assert site.ssh(machine, "systemctl is-system-running --wait", check=False) == "running", site.ssh(machine, "systemctl --failed")  # fmt: skip
        assert site.boot(machine) != before[machine]
    assert site.ended(site.job("-n1 --mem=100M --gres=gpu:2", "nvidia-smi -L")) == "COMPLETED"
    planned = site.appliance("plan", "--until", "slurm", "--detailed-exitcode")
    print(planned.stdout)  # noqa: T201
    assert planned.returncode == 0


def test_a_second_deployment_changes_nothing_and_orders_no_controller(site: Deployed) -> None:
    boots = {machine: site.boot(machine) for machine in site.machines}
    orders = {machine: machine.orders for machine in site.machines}
    done = site.deploy("--until", "slurm", "--json")
    assert done.returncode == 0
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert not [event for event in events if event.get("event") == "stage_started"]
    assert {host["state"] for host in site.install().values()} == {"runs this image"}
    assert {machine: site.boot(machine) for machine in site.machines} == boots
    assert {machine: machine.orders for machine in site.machines} == orders
