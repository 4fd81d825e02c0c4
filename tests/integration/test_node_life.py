"""The life of a GPU host: planned work, a new machine, reboots, updates, its end and its return. Jobs elsewhere run through."""

import json
import re
from collections.abc import Iterator

import pytest

from appliance.adapters.process import run
from appliance.lab import machine, rack, ssh
from appliance.lab.spec import RackSpec
from tests.integration.rack import PROGRAM, Bench, own_name, raised

pytestmark = [pytest.mark.rack, pytest.mark.slow]

KEY = "etc/ssh/ssh_host_ed25519_key"
COUNTS = "n=0; while :; do n=$((n+1)); echo $n; sleep 1; done"
STARTED = "until squeue --noheader --job={job} --states=RUNNING | grep -q . ; do sleep 0.2; done"
JOB = f"sbatch --parsable -w gpu-1 --output=/tmp/job --wrap '{COUNTS}'"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    spec = RackSpec(own_name("life"), 3, driver=True)
    with raised(spec, tmp_path_factory.mktemp("life"), Bench) as found:
        assert found.deploy("--until", "slurm").end() == 0
        yield found


def node(bench: Bench, *words: str) -> tuple[int, str]:
    argv = (PROGRAM, "node", words[0], "--site", str(bench.site), *words[1:])
    done = run(argv, timeout=600, check=False)
    return done.returncode, done.stdout + done.stderr


RELEASE = """
set -e
made=$(mktemp -d) && mkdir -p $made/DEBIAN $made/usr/bin /opt/updates
printf 'Package: site-tool\\nVersion: {version}\\nArchitecture: all\\nMaintainer: site <root@localhost>\\nDescription: tool\\n' > $made/DEBIAN/control
printf '#!/bin/sh\\nexit {ends}\\n' > $made/DEBIAN/postinst && chmod 755 $made/DEBIAN/postinst
cp /bin/sleep $made/usr/bin/site-tool
cd /opt/updates && rm -f *.deb && dpkg-deb --build $made site-tool_{version}_all.deb
sum() {{ sha256sum < $1 | cut -d' ' -f1; }}
deb=site-tool_{version}_all.deb
(dpkg-deb -f $deb; echo "Filename: ./$deb"; echo "Size: $(stat -c %s $deb)"; echo "SHA256: $(sum $deb)") > Packages
printf 'Origin: Site\\nLabel: Site-Security\\nSuite: stable-security\\nSHA256:\\n %s %s Packages\\n' $(sum Packages) $(stat -c %s Packages) > Release
"""
"""A release of a package in an archive of security updates on the host itself, which has no older one."""
SOURCE = "deb [trusted=yes] file:/opt/updates ./"
FIRST = f"dpkg -i /opt/updates/*.deb && echo '{SOURCE}' > /etc/apt/sources.list.d/updates.list"
RUNS = "systemd-run --quiet --unit=site-tool /usr/bin/site-tool infinity"
SHOWN = "dpkg-query --show --showformat='${Version} ${db:Status-Abbrev}' site-tool"


def released(bench: Bench, version: str, ends: int = 0, then: str = "true") -> None:
    """Release a version of the package on both GPU hosts; its installation ends with this code."""
    for host in ("gpu-1", "gpu-2"):
        done = bench.shell(host, RELEASE.format(version=version, ends=ends) + then)
        assert done.returncode == 0, done.stderr


def update(bench: Bench, *words: str) -> tuple[int, str]:
    argv = (PROGRAM, "update", words[0], "--site", str(bench.site), *words[1:])
    done = run(argv, timeout=600, check=False)
    return done.returncode, done.stdout + done.stderr


def versions(bench: Bench) -> list[str]:
    return [bench.shell(host, SHOWN).stdout.strip() for host in ("gpu-1", "gpu-2")]


def begun(bench: Bench, command: str) -> str:
    """Submit a job, and wait until it runs: a drain waits for a job that runs, not for one that waits for its host."""
    job = bench.shell("head", command).stdout.strip()
    assert bench.shell("head", f"timeout 50 sh -c '{STARTED.format(job=job)}'").returncode == 0, (
        f"job {job} never ran"
    )
    return job


def state_of(bench: Bench, host: str) -> str:
    return bench.shell("head", f"scontrol --oneliner show node {host}").stdout


def test_planned_work_on_a_host_that_is_switched_off_fails_nothing(bench: Bench) -> None:
    code, said = node(bench, "drain", "gpu-2", "--reason", "new power supply")
    assert code == 0, said
    bench.hurt("gpu-2", "power-off")
    seen = json.loads(bench.program("health", "--json").stdout)
    bench.heal("gpu-2", "power-off")
    of_host = [r for r in seen["results"] if r["host"] == "gpu-2" and r["status"] != "pass"]
    assert "host.reachable" in {r["id"] for r in of_host}
    assert {r["status"] for r in of_host} == {"not_assessed"}
    (told,) = [r for r in of_host if r["id"] == "slurm.nodes"]
    assert told["cause"].startswith("in maintenance since ")
    assert told["cause"].endswith(": new power supply; not judged")
    # A host that loses power may cost the rack's subnet manager its place in ibsim.
    assert {r["id"] for r in seen["results"] if r["status"] == "fail"} <= {"fabric.sm"}
    bench.shell("head", "systemctl restart 'opensm@*' opensm")
    code, said = node(bench, "return", "gpu-2")
    assert code == 0, said
    assert "DRAIN" not in state_of(bench, "gpu-2")


def test_a_new_machine_takes_the_place_of_a_host_while_a_job_runs_elsewhere(bench: Bench) -> None:
    job = begun(bench, JOB)
    old = bench.rack.host("gpu-2")
    keys = {name: (old.root / name).read_bytes() for name in (KEY, f"{KEY}.pub")}
    rack.rebuild(bench.rack, old)
    assert (old.root / KEY).read_bytes() != keys[KEY]
    code, said = node(bench, "replace", "gpu-2", "--yes")
    assert code == 0, said
    assert "✓ gpu-2 is replaced and in service: idle; its old host key is refused" in said
    assert bench.shell("head", "timeout 60 srun -w gpu-2 hostname").stdout.strip() == "gpu-2"
    assert f"{job}|RUNNING" in bench.shell("head", "squeue -h -o '%A|%T'").stdout.split()
    counted = bench.shell("gpu-1", "cat /tmp/job").stdout.split()
    assert counted == [str(n + 1) for n in range(len(counted))]  # It would begin at 1 again.
    bench.shell("head", f"scancel {job}")
    new = {name: (old.root / name).read_bytes() for name in keys}
    _with_keys(bench, keys)
    refused = bench.program("health", "--check", "host.reachable")
    _with_keys(bench, new)
    assert refused.returncode == 1
    assert "host key changed" in refused.stdout


def test_hosts_reboot_one_after_the_other_and_work_again(bench: Bench) -> None:
    code, said = node(bench, "reboot", "gpu-[1-2]", "--yes")
    assert code == 0, said
    assert "✓ gpu-1 has rebooted" in said
    assert "✓ gpu-2 has rebooted" in said
    assert re.search(r"gpu-1\W+has booted.*gpu-2\W+reboots", said, re.DOTALL), said
    ran = bench.shell("head", "timeout 60 srun -N2 hostname").stdout.split()
    assert sorted(ran) == ["gpu-1", "gpu-2"]


def test_updates_go_in_waves_and_back(bench: Bench) -> None:
    released(bench, "1.0", then=f"{FIRST} && {RUNS}")
    released(bench, "1.1")
    code, said = update(bench, "plan", "--security")
    assert code == 0, said
    assert re.search(r"site-tool +1\.0 → 1\.1  security  gpu-\[1-2\]", said), said
    code, said = update(bench, "apply", "--hosts", "gpu-[1-2]", "--canary", "gpu-2", "--yes")
    assert code == 0, said
    assert versions(bench) == ["1.1 ii", "1.1 ii"]
    reason = "gpu-2: is updated; a reboot is needed: programs use replaced files: site-tool"
    assert reason in said
    assert re.search(r"gpu-2\W+has booted.*gpu-1\W+is updated", said, re.DOTALL), said
    code, said = update(bench, "back", "gpu-1", "--yes")
    assert code == 0, said
    assert versions(bench) == ["1.0 ii", "1.1 ii"]
    assert "DRAIN" not in state_of(bench, "gpu-1")
    code, said = update(bench, "back", "gpu-1", "--yes")
    assert code == 2
    assert "gpu-1 has no update that can be undone" in said


def test_an_update_that_fails_stops_the_others_and_is_undone(bench: Bench) -> None:
    released(bench, "1.2", ends=7)
    before = versions(bench)
    code, said = update(bench, "apply", "--hosts", "gpu-[1-2]", "--yes")
    assert code == 1
    assert re.search(r"✗ gpu-1: .*site-tool.* returned error exit status 7", said), said
    assert "not updated: gpu-2" in said
    assert versions(bench) == ["1.2 iF", before[1]]
    assert "DRAIN" in state_of(bench, "gpu-1")
    code, said = update(bench, "back", "gpu-1", "--yes")
    assert code == 0, said
    assert versions(bench) == before
    assert "DRAIN" not in state_of(bench, "gpu-1")
    gone = "systemctl stop site-tool; dpkg --purge site-tool; rm -r /opt/updates /etc/apt/sources.list.d/updates.list"
    assert all(bench.shell(host, gone).returncode == 0 for host in ("gpu-1", "gpu-2"))


def test_a_host_leaves_while_a_job_runs_elsewhere(bench: Bench) -> None:
    job = begun(bench, JOB)
    held = begun(bench, "sbatch --parsable -w gpu-2 --wrap 'sleep 3600'")
    code, said = node(bench, "remove", "gpu-2", "--yes", "--wait", "0")
    assert code == 1
    assert f"gpu-2 is not free: job {held}" in said
    assert "gpu-2" in (bench.site / "site.yml").read_text()
    bench.shell("head", f"scancel {held}")
    code, said = node(bench, "remove", "gpu-2", "--yes")
    assert code == 0, said
    assert "gpu-2 left the site; munge's key and the kubelet's certificate were deleted" in said
    assert "gpu-2" not in (bench.site / "site.yml").read_text()
    assert "gpu-2" not in (bench.site / "known_hosts").read_text()
    assert "not found" in bench.shell("head", "scontrol show node gpu-2 2>&1").stdout
    assert f"{job}|RUNNING" in bench.shell("head", "squeue -h -o '%A|%T'").stdout.split()
    bench.shell("head", "systemctl restart 'opensm@*' opensm")


def test_a_host_is_added_and_works(bench: Bench) -> None:
    address = str(bench.rack.host("gpu-2").address)
    code, said = node(bench, "add", "gpu-2", "--address", address, "--yes")
    assert code in (0, 3), said
    assert "the host key of gpu-2 is not pinned yet" in said
    assert "✓ gpu-2 is deployed" in said
    assert bench.shell("head", "timeout 60 srun -w gpu-2 hostname").stdout.strip() == "gpu-2"


def _with_keys(bench: Bench, keys: dict[str, bytes]) -> None:
    """Another machine at the address of gpu-2, as far as SSH knows."""
    host = bench.rack.host("gpu-2")
    machine.stop(host)
    for name, content in keys.items():
        (host.root / name).write_bytes(content)
    machine.start(bench.rack, host)
    assert not ssh.wait_for([host], 60.0)
