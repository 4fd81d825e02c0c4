"""Engine session, as several test modules use it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.config.load import load_profile
from appliance.config.secrets import Redactor, Secret
from appliance.engine.session import Session
from appliance.journal import Journal
from appliance.models.profile import Profile
from appliance.models.site import Site
from tests.support.engine_fakes import PASSWORD, FakeHosts, Recorder


@pytest.fixture
def hosts() -> FakeHosts:
    """Hosts that answer every command with success and silence."""
    return FakeHosts()


@pytest.fixture
def recorder() -> Recorder:
    """Who is told."""
    return Recorder()


def _asking_for_training(profile: Profile) -> Profile:
    """The class without the gates that a run closes: two are enough to see what becomes of one."""
    kept = {"base.clock", "gpt3.throughput"}
    limits = {name: limit for name, limit in profile.limits.items() if name in kept}
    return profile.model_copy(update={"limits": limits})


@pytest.fixture
def session(tmp_path: Path, hosts: FakeHosts, recorder: Recorder) -> Iterator[Session]:
    """A site of one control host and two GPU hosts."""
    site = Site.model_validate(
        {
            "version": 1,
            "name": "acme",
            "networks": {"management": {"cidr": "10.1.0.0/24"}},
            "hosts": [
                {"name": "head", "roles": ["control", "login"], "address": "10.1.0.10"},
                {"name": "gpu-1", "roles": ["gpu"], "address": "10.1.0.11"},
                {"name": "gpu-2", "roles": ["gpu"], "address": "10.1.0.12"},
            ],
        }
    )
    data = tmp_path / "data"
    for name in ("one", "two", "three"):
        (data / "playbooks").mkdir(parents=True, exist_ok=True)
        (data / "playbooks" / f"{name}.yml").write_text(f"- name: {name}\n")
    secrets = {"slurmdbd_password": Secret(PASSWORD)}
    with Journal(tmp_path / "runs") as journal:
        yield Session(
            run="r1",
            verb="deploy",
            site=site,
            profile=_asking_for_training(load_profile("hpc")),
            folder=tmp_path,
            data=data,
            runs=tmp_path / "runs",
            secrets=secrets,
            remote=hosts,
            journal=journal,
            observer=recorder,
            redact=Redactor(secrets.values()),
        )
