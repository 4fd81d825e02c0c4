"""What an upgrade lacks is named before a host is drained: packages, the way back, images, room, a place for pods."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from appliance.config.data import root
from appliance.models.facts import HostFacts
from appliance.models.site import Site
from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable
from appliance.stages.kubernetes import upgrade
from appliance.stages.kubernetes.collect import offer
from appliance.stages.kubernetes.facts import Kubernetes, KubernetesNode, Offer
from tests.support.facts import facts_of
from tests.support.kubernetes_facts import SITE, facts
from tests.support.kubernetes_variables import of, site

OLD, NEW = "1.35.4-1", "1.36.3-1.1"
IMAGES = tuple(
    f"registry.k8s.io/{name}:v1.36.3" for name in (*upgrade.CONTROL_IMAGES, *upgrade.HOST_IMAGES)
)
ROOMY = [
    {
        "at": "/",
        "source": "/dev/sda",
        "type": "ext4",
        "size": 1 << 40,
        "free": 1 << 39,
        "inodes_free": 9,
    }
]


def variables(host: str, **given: Any) -> dict[str, Any]:
    """Of a site that asks for 1.36."""
    return of(host, site(version="1.36", **given))


def standing(host: str, **given: Any) -> HostFacts:
    """Facts of a host whose kubelet is of the release before."""
    return facts(host, Kubernetes(version="v1.35.4"), **{"filesystems": ROOMY, **given})


def answer(*versions: str, images: tuple[str, ...] = IMAGES, **kubelet: Any) -> HostFacts:
    """A host whose repositories offer these versions."""
    packages = {**dict.fromkeys(upgrade.PACKAGES, versions), **kubelet}
    found = Offer(packages=packages, images=images)
    return facts_of("x").model_copy(update={"offer": found})


def lacking(name: str, found: HostFacts, known: HostFacts | None = None, **given: Any) -> list[str]:
    """What is missing on a host, each with its remedy."""
    host = site().host(name)
    chosen = variables(name, **given)
    problems = upgrade.lacks(host, known or standing(name), found, chosen)
    return [f"{one.message} | {one.hint}" for one in problems]


def test_a_host_that_finds_all_lacks_nothing() -> None:
    assert lacking("head-1", answer(OLD, NEW)) == []
    assert lacking("gpu-1", answer(OLD, "1.36.0-1", f"0:{NEW}"), source="/opt/source") == []


def test_a_release_that_no_repository_offers_is_named_with_what_there_is() -> None:
    (said,) = lacking("head-1", answer(OLD, kubelet=(OLD, NEW)))
    assert "head-1: no repository offers kubeadm and kubectl 1.36 (there is 1.35.4-1)" in said
    assert "set kubernetes.version to a release that is offered" in said
    (said,) = lacking("head-1", answer())
    assert "(there is none)" in said


def test_what_a_host_cannot_tell_is_lacking() -> None:
    silent = facts_of("x", errors={"offer": "apt-get did not answer within 30 s"})
    (said,) = lacking("gpu-1", silent)
    assert "not known whether its repositories offer Kubernetes 1.36: apt-get did not" in said


def test_the_release_to_go_back_to_must_stay_on_offer() -> None:
    (said,) = lacking("head-1", answer(NEW))
    assert "no repository offers kubeadm and kubectl and kubelet 1.35.4, to which" in said


def test_images_of_the_chosen_patch_release_must_lie_in_the_offline_source() -> None:
    (said,) = lacking("head-1", answer(OLD, NEW, "1.36.4-1"), source="/opt/source")
    assert "no image kube-apiserver:v1.36.4, kube-controller-manager:v1.36.4" in said
    only = ("mirror.example.org/kube-proxy:v1.36.3",)
    assert lacking("gpu-1", answer(OLD, NEW, images=only), source="/opt/source") == []
    assert lacking("head-1", answer(OLD, NEW, images=())) == []


def test_a_host_without_room_is_named() -> None:
    full = standing("gpu-1", filesystems=[{**ROOMY[0], "free": 1 << 20}])
    (said,) = lacking("gpu-1", answer(OLD, NEW), full)
    assert "gpu-1: /var/lib has 1 MiB free (on /), and an upgrade needs 3072 MiB" in said
    assert "du -xh" in said


def nodes(*closed: str, owner: str = "kubernetes") -> dict[str, HostFacts]:
    """Nodes as the API has them, some of them cordoned."""
    found = [
        KubernetesNode(name="head", ready=True, cordoned="head" in closed),
        KubernetesNode(name="gpu-1", ready=True, cordoned="gpu-1" in closed, owner=owner),
        KubernetesNode(name="gpu-2", ready=True, owner="slurm"),
    ]
    return {"head": facts("head", Kubernetes(nodes=tuple(found)))}


@pytest.mark.parametrize(
    ("closed", "stuck"), [((), ""), (("gpu-1",), "head"), (("head",), "gpu-1")]
)
def test_evicted_pods_must_find_another_host(closed: tuple[str, ...], stuck: str) -> None:
    said = [e.message for e in upgrade.has_no_place(SITE, ("head", "gpu-1"), nodes(*closed))]
    assert [line.partition(":")[0] for line in said] == ([stuck] if stuck else [])


def test_a_site_with_one_host_for_pods_is_not_held_up() -> None:
    alone: Site = SITE.model_copy(update={"hosts": SITE.hosts[:1]})
    assert [*upgrade.has_no_place(alone, ("head",), nodes())] == []


def test_repositories_of_both_releases_are_asked_for() -> None:
    asked: Any = upgrade.request(standing("gpu-1"), variables("gpu-1"))["offer"]
    base = "https://pkgs.k8s.io/core:/stable:"
    assert asked["sources"] == [f"{base}/v1.35/deb", f"{base}/v1.36/deb"]
    rpm = standing("gpu-1", os={"id": "rocky", "like": ["rhel"]})
    asked = upgrade.request(rpm, variables("gpu-1"))["offer"]
    assert asked["sources"][0].endswith("/v1.35/rpm")
    asked = upgrade.request(standing("gpu-1"), variables("gpu-1", source="/opt/s"))["offer"]
    assert asked["sources"] == ["file:/opt/s/packages"]
    assert asked["images"] == ["/opt/s/images/hosts", "/opt/s/images/control"]


def test_the_makers_repository_is_the_roles() -> None:
    role = (root() / "roles/kubernetes/vars/main.yml").read_text()
    assert f'__kubernetes_upstream: "{upgrade.UPSTREAM}"' in role


def test_versions_on_offer_are_read_of_apt_and_what_is_installed_is_none() -> None:
    said = (
        " kubeadm | 1.36.3-1 | file:/opt/packages ./ Packages\n"
        " kubeadm | 1.35.4-1 | /var/lib/dpkg/status\n"
        " other | 1 | file:/opt/packages ./ Packages\n"
        "N: a remark\n"
    )
    found = offer.versions(said, ["kubeadm", "kubelet"])
    assert found == {"kubeadm": ["1.36.3-1"], "kubelet": []}


def test_the_probe_reads_repositories_in_a_folder_of_its_own(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for name, prints in (("apt-get", ""), ("apt-cache", " kubeadm | 1-1 | file:/p ./ Packages")):
        program = tmp_path / "usr/bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f'#!/bin/sh\necho "$0 $@" >> {log}\necho "{prints}"\n')
        program.chmod(0o755)
    images = tmp_path / "images"
    images.mkdir()
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps([{"RepoTags": ["r/kube-proxy:v1"]}]))
    with tarfile.open(images / "a.tar", "w") as opened:
        opened.add(manifest, "manifest.json")
    given = {"packages": ["kubeadm"], "sources": ["file:/p"], "images": ["/images"]}
    found = offer.collect(Ask({"areas": ["offer"], "offer": given}, str(tmp_path)))["offer"]
    assert found == {"packages": {"kubeadm": ["1-1"]}, "images": ["r/kube-proxy:v1"]}
    update, _ = log.read_text().splitlines()
    for option in ("Dir::Etc::SourceParts=/dev/null", "Dir::State::Lists=", "Dir::Cache="):
        assert option in update
    folder = update.partition("Dir::State::Lists=")[2].partition("/lists")[0]
    assert not Path(folder).exists()
    (images / "b.tar").write_text("no archive")
    with pytest.raises(Unreadable, match=r"images.*"):
        offer.names(str(images))
