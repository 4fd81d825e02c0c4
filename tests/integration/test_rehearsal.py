"""Changes rehearsed for real: one that passes, and planted mistakes that only a deployment shows. No site is touched."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.process import run
from appliance.config.load import load_site
from appliance.config.secrets import resolve
from appliance.engine.accept.declared_site import DECLARED, declared
from appliance.journal import Journal
from appliance.lab.spec import folder_of
from tests.integration.rack import PROGRAM, own_name

pytestmark = [pytest.mark.rack, pytest.mark.remedies, pytest.mark.slow]

SECONDS = 1200.0
NAME = own_name("rehearsal")
USERS = """
base:
  groups: [{name: lab, gid: 3000}]
  users: [{name: alice, uid: 3001, groups: [lab], keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"]}]
"""
SHORT = '    - {name: short, max_time: "1:00:00"}\n'
Change = Callable[[Path], None]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site of three hosts with Slurm and a user, whose journal records it as deployed."""
    folder = tmp_path / "acme"
    words = ("--count", "3", "--profile", "hpc", "--network", "10.20.30.0/24")
    run((PROGRAM, "init", str(folder), *words, "--with", "slurm", "--without", "kubernetes"))
    file = folder / "site.yml"
    text = file.read_text()
    before, _, after = text.partition("\nbase:")
    file.write_text(before + USERS + "\nstorage:" + after.partition("\nstorage:")[2])
    loaded = load_site(folder)
    now = declared(loaded.sources, resolve(loaded.site, loaded.folder))
    kept = {key: value for key, value in vars(now).items() if key != "run"}
    with Journal(folder / "runs") as journal:
        journal.append("r1", DECLARED, **kept)
    return folder


def _rehearse(folder: Path) -> tuple[int, dict[str, Any]]:
    """Exit code and result; the site must be the same, and the rack gone."""
    before = _content(folder)
    argv = (PROGRAM, "rehearse", "--site", str(folder), "--name", NAME, "--json")
    done = run(argv, check=False, timeout=SECONDS)
    assert _content(folder) == before
    assert not folder_of(NAME).exists()
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def _content(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(file): sha256(file.read_bytes()).hexdigest() for file in files}


def _causes(found: dict[str, Any]) -> str:
    told = [found["cause"], *(one["cause"] for one in (*found["failures"], *found["checks"]))]
    return "\n".join(told)


def test_a_new_partition_passes_and_jobs_run_through(site: Path) -> None:
    _add_partition(site)
    code, found = _rehearse(site)
    assert code == 0, _causes(found)
    assert found["deployed"] == "r1"
    assert "slurmctld" in found["restarts"]["head"]
    assert found["unannounced"] == {}
    assert [(job["host"], job["state"]) for job in found["jobs"]] == [
        ("gpu-1", "RUNNING"),
        ("gpu-2", "RUNNING"),
    ]


def _add_partition(folder: Path) -> None:
    file = folder / "site.yml"
    text = file.read_text()
    line = next(line for line in text.splitlines() if "- {name: gpu, default: true" in line)
    file.write_text(text.replace(f"{line}\n", f"{line}\n{SHORT}"))


def _release(folder: Path) -> None:
    with (folder / "site.yml").open("a") as file:
        file.write('\nsoftware: {driver_branch: "580.999.99"}\n')


def _cluster(folder: Path) -> None:
    file = folder / "site.yml"
    file.write_text(file.read_text().replace("cluster: acme", "cluster: acme2"))


def _full(folder: Path) -> None:
    facts = {"filesystems": [{"at": "/", "free": 20 << 20}]}
    with Journal(folder / "runs") as journal:
        journal.append("r1", "facts", host="gpu-1", facts=facts)
    file = folder / "site.yml"
    file.write_text(file.read_text().replace("\nbase:\n", "\nbase:\n  tools: [mpi]\n"))


@pytest.mark.parametrize(("change", "says"), [
    (_release, "no repository of this host offers"),
    (_cluster, 'slurm.cluster is "acme2"'),
    (_full, "the disk is full"),
])  # fmt: skip
def test_mistakes_that_only_a_deployment_shows_fail_with_their_cause(
    change: Change, says: str, site: Path
) -> None:
    change(site)
    code, found = _rehearse(site)
    assert (code, found["outcome"]) == (1, "failed")
    assert says in _causes(found)


def test_another_password_of_the_database_restarts_its_daemon(site: Path) -> None:
    secret = site / "secrets/slurmdbd_password"
    secret.chmod(0o600)
    secret.write_text("another-password\n")
    code, found = _rehearse(site)
    assert code == 0, _causes(found)
    assert "slurmdbd" in found["restarts"]["head"]
