"""A rack deployed from nothing: proved, usable by hand, left alone by the next deployment, and told the same by every verb."""

import json
import os
import re
import shutil
import subprocess  # noqa: TID251 - a program that is killed is no Completed
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from appliance.adapters.process import Completed, run
from appliance.config import data
from appliance.config.load import load_site
from appliance.engine.run.benchmark_jobs import NOTED
from appliance.journal import hold
from appliance.models.plan import Action
from appliance.models.result import Status, Verdict
from appliance.models.run import RunRecord, StageState
from appliance.stages.catalog import STAGES
from tests.integration.deployed import HOSTS, NAME, USER, Deployed, Pair, Watch, appliance

pytestmark = pytest.mark.rack

GPU_HOSTS = ("gpu-1", "gpu-2")
PORTS = 17  # eight of each GPU host, one of the head


@pytest.fixture(scope="module")
def concerned(deployed: Deployed) -> frozenset[Pair]:
    """Stage and host of everything a deployment of this site does."""
    site = load_site(deployed.site).site
    return frozenset((s.name, h.name) for s in STAGES for h in site.hosts if s.concerns(site, h))


@pytest.fixture(scope="module")
def first_run(deployed: Deployed) -> str:
    """The id of the deployment from nothing. What another run left on this machine may be told before it."""
    return next(str(e["run"]) for e in _events(deployed.first) if e["event"] == "run_started")


def _events(done: Completed) -> list[dict[str, object]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def _verdicts(record: RunRecord) -> dict[Pair, Status]:
    return {(r.id, r.target): r.status for r in record.results}


# From nothing


def test_deployment_from_nothing_passes(deployed: Deployed) -> None:
    assert deployed.first.returncode == 0, deployed.first.stdout[-2000:] + deployed.first.stderr
    last = _events(deployed.first)[-1]
    assert (last["event"], last["verdict"], last["exit_code"]) == ("run_finished", "passed", 0)


def test_every_stage_is_done_on_every_host(
    deployed: Deployed, first_run: str, concerned: frozenset[Pair]
) -> None:
    assert sorted(deployed.pairs(first_run, "host_started")) == sorted(concerned)
    assert sorted(deployed.pairs(first_run, "host_done")) == sorted(concerned)
    assert deployed.pairs(first_run, "host_failed") == []
    (finished,) = deployed.journal(first_run, "run_finished")
    assert (finished.data["verdict"], finished.data["exit"]) == ("passed", 0)


def test_report_lies_in_the_sites_runs(
    deployed: Deployed, first_run: str, concerned: frozenset[Pair]
) -> None:
    record = deployed.record(first_run)
    assert (record.verb, record.site, record.profile) == ("deploy", NAME, "hpc")
    assert (record.verdict, record.gpu_count, record.simulated) == (
        Verdict.PASSED,
        16,
        ("fabric", "gpu"),
    )
    done = {(o.stage, o.host) for o in record.outcomes if o.state is StageState.DONE}
    assert done >= concerned | {("validate", host) for host in HOSTS}
    page = (deployed.site / "runs" / first_run / "report.html").read_text()
    assert NAME in page
    assert "passed" in page.lower()
    # One file, no network: nothing is loaded from elsewhere.
    assert re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page) == []


def test_verdict_is_what_the_results_and_the_exit_code_say(
    deployed: Deployed, first_run: str
) -> None:
    record = deployed.record(first_run)
    assert record.count(Status.FAIL, Status.ERROR) == 0
    missing = [r for r in record.results if r.status in {Status.NOT_ASSESSED, Status.SKIP}]
    assert [r.id for r in missing if r.required] == []
    assert {(r.id, r.target) for r in record.results if r.status is Status.PASS} > {
        ("slurm.job", "cluster"),
        ("slurm.job_accounting", "cluster"),
    }
    assert len(record.not_assessed) >= 1


def test_secrets_are_nowhere_in_what_a_run_leaves(deployed: Deployed) -> None:
    secrets = [p.read_bytes().strip() for p in (deployed.site / "secrets").iterdir()]
    assert len(secrets) >= 2
    kept = [p for p in (deployed.site / "runs").rglob("*") if p.is_file()]
    assert len(kept) >= 3
    told = [str(p) for p in kept for secret in secrets if secret in p.read_bytes()]
    assert told == []
    assert all(s.decode() not in deployed.first.stdout + deployed.first.stderr for s in secrets)


# By hand


def test_gpu_job_runs_on_both_hosts_and_is_accounted_for(deployed: Deployed) -> None:
    name = f"by-hand-{os.getpid()}"
    job = "'hostname; echo $CUDA_VISIBLE_DEVICES'"
    answer = deployed.said("head", f"timeout 60 srun -J {name} -N2 --gres=gpu:8 sh -c {job}")
    assert sorted(answer.split()) == ["0,1,2,3,4,5,6,7"] * 2 + list(GPU_HOSTS)
    # The controller tells accounting of a job's end a moment after srun is back.
    ask = f"sacct -nXP --name {name} -o State,NNodes,Partition,NodeList -S now-1hour"
    patient = f"for i in $(seq 30); do {ask} | grep COMPLETED && exit; sleep 1; done; {ask}"
    assert deployed.said("head", patient).split() == ["COMPLETED|2|gpu|gpu-[1-2]"]


def test_a_user_is_the_same_on_every_host_and_runs_jobs_from_home(deployed: Deployed) -> None:
    site = load_site(deployed.site).site

    def said(host: str, command: str) -> list[str]:
        options = ("-i", f"{deployed.site}/id_ed25519", "-o", "BatchMode=yes", "-o")
        known = f"UserKnownHostsFile={deployed.site}/known_hosts"
        who = f"{USER}@{site.host(host).address}"
        return run(("ssh", *options, known, who, command), timeout=60).stdout.splitlines()

    wanted = f"uid=2001({USER}) gid=2001({USER}) groups=2001({USER}),"
    for host in HOSTS:
        (told,) = said(host, "id")
        assert told.startswith(wanted), told
        assert told.endswith("(appliance-users),3001(vision)"), told
    home = f"/data/home/{USER}"
    assert said("head", "pwd; stat -c '%a %U %G' .") == [home, f"700 {USER} {USER}"]
    assert said("head", "srun -N2 id -un") == [USER, USER]


def test_fabric_shows_the_ports_of_all_hosts(deployed: Deployed) -> None:
    found = re.findall(
        r'^Ca\s.*# "(\S+) (mlx5_\d)"', deployed.said("head", "ibnetdiscover"), re.MULTILINE
    )
    expected = {(host, f"mlx5_{i}") for host in GPU_HOSTS for i in range(8)}
    assert {pair for pair in found if pair[0] != "head"} == expected
    assert len(found) == PORTS


def test_file_written_on_one_host_is_read_on_the_other(deployed: Deployed) -> None:
    server = deployed.said("head", "hostname -I").split()[0]
    shared = f"nfs://{server}/srv/data/by-hand"
    write = f"head -c 3000000 /dev/urandom > /tmp/by-hand; nfs-cp /tmp/by-hand {shared} >&2"
    digest = deployed.said("gpu-1", f"{write}; sha256sum < /tmp/by-hand")
    assert deployed.said("gpu-2", f"nfs-cat {shared} | sha256sum") == digest
    assert deployed.said("head", "sha256sum < /data/by-hand; rm /data/by-hand") == digest


@pytest.mark.parametrize("where", ["127.0.0.1", "$(hostname -I | cut -d' ' -f1)"])
def test_prometheus_finds_all_targets_up(deployed: Deployed, where: str) -> None:
    expected = [("node", host, "1") for host in HOSTS] + [("prometheus", "head", "1")]
    # Prometheus looks back five minutes: on a slow machine it still shows the target its package came with.
    deadline = time.monotonic() + 400
    while (up := _targets(deployed, where)) != sorted(expected) and time.monotonic() < deadline:
        time.sleep(5)
    assert up == sorted(expected)


def _targets(deployed: Deployed, where: str) -> list[tuple[str, str, str]]:
    """Job, instance and value of everything Prometheus looks at."""
    code = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"
    query = f"http://{where}:9090/api/v1/query?query=up"
    answer = json.loads(deployed.said("head", f"python3 -c '{code}' \"{query}\""))
    return sorted(
        (r["metric"]["job"], r["metric"]["instance"], r["value"][1])
        for r in answer["data"]["result"]
    )


# The other verbs


def test_health_agrees_with_its_exit_code(deployed: Deployed) -> None:
    # On a busy machine a daemon may answer late, and health says so: what is wrong then is gone at a later look.
    deadline = time.monotonic() + 120
    while (table := deployed.program("health")).returncode and time.monotonic() < deadline:
        time.sleep(5)
    told = deployed.program("health", "--json")
    document = json.loads(told.stdout)
    assert document["verdict"] == "passed", table.stdout
    assert (table.returncode, told.returncode) == (0, 0)
    assert "PASSED" in table.stdout
    assert {r["target"] for r in document["results"] if r["id"] == "host.reachable"} == set(HOSTS)
    assert {r["status"] for r in document["results"]} == {"pass", "not_assessed"}


def test_health_speaks_nagios(deployed: Deployed) -> None:
    done = deployed.program("health", "--format", "nagios")
    assert done.returncode == 0
    first, *details = done.stdout.splitlines()
    found = re.fullmatch(rf"APPLIANCE OK - {NAME}: (\d+) passed \| (.*)", first)
    assert found
    counts = dict(re.findall(r"(\w+)=(\d+);;;0;\d+", found[2]))
    assert counts["pass"] == found[1]
    assert int(counts["not_assessed"]) == len(details)
    assert not any("|" in line for line in details)


def test_health_speaks_prometheus(deployed: Deployed) -> None:
    done = deployed.program("health", "--format", "prometheus")
    assert done.returncode == 0
    judged = deployed.shell("head", "promtool check metrics", input=done.stdout)
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert f'appliance_verdict{{site="{NAME}",verdict="passed"}} 1' in done.stdout.splitlines()


def test_health_of_a_broken_host_fails_in_every_format(deployed: Deployed) -> None:
    deployed.said("gpu-2", "systemctl stop munge")
    try:
        table = deployed.program("health", "--hosts", "gpu-2")
        told = json.loads(deployed.program("health", "--json").stdout)
        nagios = deployed.program("health", "--format", "nagios")
    finally:
        deployed.said("gpu-2", "systemctl start munge slurmd")
    assert table.returncode == 1
    assert "slurm.munge" in table.stdout
    assert told["verdict"] == "failed"
    assert "gpu-2" in {r["target"] for r in told["results"] if r["status"] == "fail"}
    assert nagios.returncode == 2
    assert nagios.stdout.startswith("APPLIANCE CRITICAL")


def test_plan_tells_nothing_to_do_from_drift(
    deployed: Deployed, concerned: frozenset[Pair]
) -> None:
    assert deployed.program("plan", "--detailed-exitcode").returncode == 0
    deployed.said("gpu-1", "chmod 0600 /etc/hosts")
    try:
        assert deployed.program("plan", "--detailed-exitcode").returncode == 2
        assert deployed.program("plan").returncode == 0
    finally:
        deployed.said("gpu-1", "chmod 0644 /etc/hosts")
    cells = {(c.stage, c.host): c.action for c in deployed.plan().cells}
    looked_at = concerned | {("validate", host) for host in HOSTS}
    assert {pair for pair, action in cells.items() if action is Action.SKIP} == looked_at
    assert set(cells.values()) <= {Action.SKIP, Action.NOT_CONCERNED}


def test_report_shows_the_last_run(deployed: Deployed) -> None:
    last = deployed.runs()[-1]
    text = deployed.program("report")
    assert text.returncode == deployed.record(last).verdict.exit_code
    assert last in text.stdout.replace("\n", "")
    told = deployed.program("report", "--format", "json")
    assert RunRecord.model_validate_json(told.stdout) == deployed.record(last)
    listed = deployed.program("report", "--list").stdout.splitlines()
    assert [line.split()[0] for line in listed] == deployed.runs()


@pytest.mark.slow
def test_gpt3_tells_a_run_on_two_hosts(deployed: Deployed) -> None:
    done = deployed.program("validate", "gpt3", timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tokens/s" in done.stdout
    assert re.search(r"1 node\s+2 nodes", done.stdout)
    rate = r"[\d,]+(?: ± [\d,]+)?"
    assert re.search(rf"Bare metal: tokens/s\s+{rate}\s+{rate}", done.stdout)
    assert re.search(r"linear factor / perfect\s+1 / 1\s+\d\.\d\d(?: ± \d\.\d\d)? / 2", done.stdout)
    record = deployed.record(deployed.runs()[-1])
    (table,) = record.tables
    assert len(table.rows) >= 1
    assert all(m.simulated for m in record.measurements if m.unit == "tokens/s")
    jobs = deployed.said("head", "sacct -nXP -o JobName,NNodes,State -S now-1hour").split()
    assert any(re.fullmatch(r"appliance-gpt3-.*\|2\|COMPLETED", job) for job in jobs)


KILL = """
for i in $(seq 1 300); do
  p=$(pgrep -f '^[^ ]*python3 -u - --steps' | head -1)
  [ -n "$p" ] && sleep 1 && kill -9 "$p" && exit 0
  sleep 0.2
done
exit 1
"""


@pytest.mark.slow
def test_gpt3_names_the_rank_that_dies(deployed: Deployed) -> None:
    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(deployed.shell, "gpu-2", KILL)
        asked = ("gpt3", "--nodes", "2", "--through", "slurm")
        done = deployed.program("validate", *asked, timeout=400)
        assert killed.result().returncode == 0
    assert done.returncode == 3, done.stdout + done.stderr
    assert "task 1 on gpu-2: Killed" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_gpt3_goes_on_without_the_program_and_resume_ends_with_its_record(
    deployed: Deployed,
) -> None:
    before = len(deployed.journal("", NOTED))
    words = ("validate", "gpt3", "--nodes", "2", "--site", str(deployed.site))
    argv = [sys.executable, "-m", "appliance", *words]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
        run_id = _submitted(deployed, before)
        program.kill()
    assert "appliance-gpt3-" in deployed.said("head", "squeue --noheader --format=%j")
    done = deployed.program("validate", "--resume", run_id, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    record = deployed.record(run_id)
    assert [r.status for r in record.results if r.id == "gpt3.loss"] == [Status.PASS]
    assert len(deployed.journal(run_id, NOTED)) == 2
    again = deployed.program("validate", "--resume", run_id)
    assert again.returncode == 2
    assert "is already complete" in again.stderr


def _submitted(deployed: Deployed, before: int) -> str:
    """The run whose job has its number: it is noted a second time then."""
    for _ in range(300):
        noted = deployed.journal("", NOTED)[before:]
        if len(noted) > 1:
            return noted[-1].run
        time.sleep(0.2)
    raise AssertionError("no job was submitted within a minute")


# Again


def test_second_deployment_starts_no_ansible_and_says_the_same(
    deployed: Deployed, first_run: str, tmp_path: Path
) -> None:
    """That the watch sees Ansible where it runs is proved in test_drift."""
    watch = Watch(tmp_path)
    done = deployed.deploy("--json", env=watch.env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert watch.started == []
    run_id = str(_events(done)[0]["run"])
    assert {e.kind for e in deployed.journal(run_id)} == {
        "opened",
        "closed",
        "run_started",
        "facts",
        "plan",
        "result",
        "measured",
        "deployment",
        "run_finished",
    }
    again, before = deployed.record(run_id), deployed.record(first_run)
    assert _verdicts(again) == _verdicts(before)
    assert {o.state for o in again.outcomes} == {StageState.SKIPPED}
    assert [t.title for t in again.tables] == [t.title for t in before.tables]
    for recalled, measured in zip(again.measurements, before.measurements, strict=True):
        said = f"measured in run {first_run}; nothing has changed since"
        assert recalled.detail == measured.detail | {"recalled": said}
        assert recalled.model_copy(update={"detail": measured.detail}) == measured


def test_another_checkout_of_the_same_files_has_nothing_to_do(
    deployed: Deployed, tmp_path: Path
) -> None:
    """With another umask, and with what tools leave: neither is what a playbook reads."""
    copy = tmp_path / "checkout"
    for name in ("appliance", *data.FOLDERS):
        shutil.copytree(data.root() / name, copy / name)
    for file in (copy / "roles").rglob("*"):
        file.chmod(file.stat().st_mode & 0o700)
    stray = copy / "playbooks/collections/.ruff_cache/x"
    stray.parent.mkdir(exist_ok=True)
    stray.touch()
    watch = Watch(tmp_path)
    env = watch.env
    env |= {"PYTHONPATH": f"{copy}{os.pathsep}{env['PYTHONPATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
    where = (sys.executable, "-P", "-c", "import appliance; print(appliance.__file__)")
    assert run(where, env=env).stdout.startswith(str(copy))
    (tmp_path / "started").unlink(missing_ok=True)
    done = deployed.deploy(env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert watch.started == []
    assert {o.state for o in deployed.record(deployed.runs()[-1]).outcomes} == {StageState.SKIPPED}


def test_part_of_a_deployment_is_good_as_far_as_it_goes(deployed: Deployed) -> None:
    done = deployed.deploy("--stage", "base", "--hosts", "gpu-1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The selected part passed." in done.stdout
    (said,) = [line for line in done.stdout.splitlines() if "not judged" in line]
    assert "slurm" in said
    assert "validate" in said
    assert "hosts head, gpu-2" in said
    record = deployed.record(deployed.runs()[-1])
    assert record.narrowed == "--hosts gpu-1 --stage base"
    assert {r.host for r in record.results} == {"gpu-1"}
    assert {r.id.split(".")[0] for r in record.results} == {"base", "host"}


def test_site_held_by_another_run_is_refused(deployed: Deployed) -> None:
    with hold(deployed.site / "runs", "another-run", "deploy"):
        done = deployed.deploy()
    assert done.returncode == 1
    assert "another-run" in done.stderr
    assert str(os.getpid()) in done.stderr


def test_declined_deployment_changes_nothing(deployed: Deployed) -> None:
    done = appliance("deploy", "--site", str(deployed.site))
    assert done.returncode == 2
    assert "--yes" in done.stderr
