"""The site of a complete rack: sound for every hardware class that a rack can simulate, with all that the mission names."""

from pathlib import Path

import pytest

from appliance.config.load import load_profile, load_site
from appliance.config.new_secrets import write_secrets
from appliance.lab import containers, repository, site, spec
from appliance.lab.hardware import of_profile
from appliance.lab.rack import complete
from appliance.lab.spec import RackSpec, numbered
from appliance.models.site import Owner, Site
from appliance.stages.catalog import EVERY_STAGE
from appliance.stages.scheduler.queues.tree import hosts_of

NOT_ASKED_FOR = {"backup", "runai", "workloads"}


def made(profile: str, gpu: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(spec, "STATE_ROOT", folder)
    monkeypatch.setattr(containers, "write", lambda _: {})
    monkeypatch.setattr(repository, "fingerprint", lambda _: "")
    monkeypatch.setattr(
        site,
        "client_key",
        lambda _: (
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINapzO8tATGiMPh3ZB5REh9n4u3rwE80ACezQAc5S+rw rack\n"
        ),
    )
    rack = numbered(
        complete(RackSpec("test", profile=profile, gpu=gpu)),
        2,
        {},
        of_profile(load_profile(profile), gpu),
    )
    write_secrets(rack.site_dir / "secrets", kubernetes=True)
    (rack.site_dir / "known_hosts").touch()
    key = rack.site_dir / "id_ed25519"
    key.touch(mode=0o600)
    key.write_text("not looked into\n", encoding="utf-8")
    (rack.site_dir / "site.yml").write_text(site.render(rack), encoding="utf-8")
    return load_site(rack.site_dir).site


@pytest.mark.parametrize("profile", ["hpc", "balanced", "cost-efficient", "dgx-a100"])
def test_it_asks_for_every_stage_and_has_two_members_with_accounts(
    profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = made(profile, "", tmp_path, monkeypatch)
    assert {s.name for s in EVERY_STAGE if not s.wanted(found)} == NOT_ASKED_FOR
    assert [h.name for h in found.gpu_hosts_of(Owner.SLURM)] == ["gpu-1", "gpu-2"]
    assert hosts_of(found) == {"default": ("gpu-4", "gpu-5"), "parts": ("gpu-3",)}
    assert found.scheduler
    members = {user for project in found.scheduler.projects for user in project.users}
    assert members == {user.name for user in found.base.users} == {"alice", "bob"}


def test_a_product_that_cannot_be_divided_is_left_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "mig_table", lambda: _NONE)
    found = made("hpc", "", tmp_path, monkeypatch)
    assert not found.mig.declares
    assert hosts_of(found) == {"default": ("gpu-3", "gpu-4", "gpu-5")}


class _Undivided:
    def of(self, model: str) -> None:
        return None


_NONE = _Undivided()
