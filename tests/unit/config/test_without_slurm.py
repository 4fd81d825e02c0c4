"""A site has the schedulers that it names: Slurm, Kubernetes, or both."""

import re
from pathlib import Path

import pytest

from appliance.actions.deployment.first_steps import deployed, job, member, not_asked_for
from appliance.benchmarks import of_deployment
from appliance.config.data import profiles
from appliance.config.finding import InvalidConfig
from appliance.config.load import LoadedSite, load_site
from appliance.config.new_secrets import write_secrets
from appliance.models.site import Owner
from appliance.stages.kubernetes import charts
from appliance.stages.kubernetes.rules import EXAMPLES

HEAD = """version: {version}
name: acme
profile: hpc
access: {{private_key: secrets/id_ed25519, known_hosts: known_hosts}}
networks: {{management: {{cidr: 10.0.0.0/24}}}}
hosts:
  - {{name: head, roles: [control, storage, login], address: 10.0.0.10}}
  - {{name: gpu-1, roles: [gpu], address: 10.0.0.11}}
  - {{name: gpu-2, roles: [gpu], address: 10.0.0.12{owner}}}
"""
MUNGE = "munge_key: {file: secrets/munge_key}, slurmdbd_password: {file: secrets/slurmdbd_password}"
CLUSTER_KEY = "kubernetes_encryption_key: {file: secrets/kubernetes_encryption_key}"
KAI = """kubernetes: {network: cilium}
scheduler:
  kind: kai
  projects: [{name: vision, users: [alice], queues: [{name: train, gpu: {quota: 4}}]}]
"""


def load(folder: Path, sections: str, version: int = 2, owner: str = "") -> LoadedSite:
    """The site of these sections, in ``folder``."""
    write_secrets(folder / "secrets", kubernetes=True)
    key = folder / "secrets/id_ed25519"
    key.touch(mode=0o600)
    key.write_text("a key")
    (folder / "known_hosts").write_text("")
    owned = f", owner: {owner}" if owner else ""
    (folder / "site.yml").write_text(HEAD.format(version=version, owner=owned) + sections)
    return load_site(folder)


def refused(folder: Path, sections: str, version: int = 2, owner: str = "") -> list[str]:
    """What is said of a site that is refused."""
    with pytest.raises(InvalidConfig) as error:
        load(folder, sections, version, owner)
    return [f"{f.key}: {f.message}; {f.remedy}" for f in error.value.findings]


def test_a_cluster_alone_asks_for_nothing_of_slurm(tmp_path: Path) -> None:
    site = load(tmp_path, f"secrets: {{{CLUSTER_KEY}}}\n{KAI}").site
    assert site.slurm is None
    assert "slurm" not in deployed(site)
    assert "slurm" in not_asked_for(site)
    assert {"kubernetes", "scheduler", "queues"} <= set(deployed(site))
    assert [b.name for b in of_deployment(site)] == ["storage", "queue"]
    assert site.gpu_hosts_of(Owner.SLURM) == ()
    assert (job(site), member(site)) == ("", "alice")


def test_both_share_the_gpu_hosts_by_owner(tmp_path: Path) -> None:
    text = f"secrets: {{{MUNGE}, {CLUSTER_KEY}}}\nslurm: {{}}\n{KAI}"
    site = load(tmp_path, text, owner="slurm").site
    assert {"slurm", "kubernetes"} <= set(deployed(site))
    assert [b.name for b in of_deployment(site)] == ["storage", "slurm", "queue", "gpt3"]
    assert [host.name for host in site.gpu_hosts_of(Owner.SLURM)] == ["gpu-2"]
    assert job(site) == "srun -N1 --gpus-per-node=1 nvidia-smi -L"


@pytest.mark.parametrize("section", ["slurm: {}\n", ""])
def test_in_version_1_a_site_has_slurm_named_or_not(tmp_path: Path, section: str) -> None:
    site = load(tmp_path, f"secrets: {{{MUNGE}}}\n{section}", version=1).site
    assert site.slurm is not None
    assert site.slurm.partitions[0].name == "gpu"
    assert "slurm" in deployed(site)


def test_slurm_needs_its_secrets_and_names_them(tmp_path: Path) -> None:
    said = refused(tmp_path, "slurm: {}\n")
    assert any(
        line.startswith("secrets.munge_key: is missing; it is needed by Slurm") for line in said
    )
    assert any("secrets.slurmdbd_password" in line for line in said)


def test_a_site_without_any_scheduler_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, "") == [
        "hosts: no scheduler uses the GPU hosts: sections slurm and kubernetes are both missing; "
        "add kubernetes and scheduler, or slurm (docs/site.md)"
    ]


def test_a_host_of_a_slurm_that_is_not_there_is_refused(tmp_path: Path) -> None:
    said = refused(tmp_path, f"secrets: {{{CLUSTER_KEY}}}\n{KAI}", owner="slurm")
    assert said == [
        "hosts[2].owner: the site has no Slurm; add a section slurm, or write kubernetes"
    ]


def test_a_cluster_alone_gets_the_operator_that_hands_out_its_gpus(tmp_path: Path) -> None:
    bare = f"secrets: {{{CLUSTER_KEY}}}\nkubernetes: {{network: cilium}}\n"
    loaded = load(tmp_path, bare)
    assert loaded.site.scheduler is None
    assert [r.name for r in charts.releases(loaded.site, loaded.profile)] == ["gpu-operator"]


def test_a_device_plugin_of_the_sites_own_is_taken_at_its_word(tmp_path: Path) -> None:
    text = f"secrets: {{{CLUSTER_KEY}}}\nkubernetes: {{network: cilium, device_plugin: own}}\n"
    assert load(tmp_path, text).site.scheduler is None


@pytest.mark.parametrize(
    ("plugin", "key"), [("operator", "gpu_operator"), ("plugin", "device_plugin")]
)
def test_a_cluster_without_anything_that_hands_out_its_gpus_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin: str, key: str
) -> None:
    profile = (profiles() / "hpc.yml").read_text()
    (tmp_path / "mine.yml").write_text(re.sub(rf"(?m)^  {key}: .*\n", "", profile))
    monkeypatch.setattr(f"{__name__}.HEAD", HEAD.replace("profile: hpc", "profile: ./mine.yml"))
    section = f"kubernetes: {{network: cilium, device_plugin: {plugin}}}\n"
    said = refused(tmp_path, f"secrets: {{{CLUSTER_KEY}}}\n{section}")
    assert [line for line in said if key in line] == [
        f"kubernetes.device_plugin: pods cannot use GPUs: neither site nor profile names a release of {key}, "
        f'which provides the device plugin; add {key}: "{EXAMPLES[key]}" under software; '
        "for a device plugin of the site's own: kubernetes.device_plugin: own"
    ]
