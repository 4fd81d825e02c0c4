"""Kubernetes and containerd come from repositories laid out as their makers do: fetched by apt, refused unsigned, held at the release."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.config.new_secrets import write_secrets
from appliance.lab import repository
from appliance.lab.spec import RackSpec
from tests.integration.maker_repository import LOOK_ALIKE, Makers, served
from tests.integration.rack import Bench, own_name, raised

pytestmark = [pytest.mark.rack, pytest.mark.slow]

PORT = 8077
NEWER = "1.35.10-1.1"
ASKED = "1.35.4-1.1"


@dataclass
class World:
    """A rack of two hosts with stage base, and the makers' repositories it reaches."""

    bench: Bench
    makers: Makers
    plain: str

    def choose(
        self, version: str = "1.35.4", fingerprint: str = "", helm: str = "", **containerd: str
    ) -> None:
        """What the owner writes into site.yml."""
        at = f"http://{self.bench.rack.gateway}:{PORT}"
        signed = f"fingerprint: {fingerprint or self.makers.fingerprint}"
        docker = f"{{mirror: {at}/docker, {signed}}}"
        own = "{source: distribution}" if containerd else docker
        more = f"  containerd: {own}\n  kubernetes: {{mirror: {at}/kubernetes, {signed}}}\n"
        more += f"  helm: {helm}\n" if helm else ""
        text = self.plain.replace("\nrepositories:\n", f"\nrepositories:\n{more}")
        release = containerd.get("release", "2.3")
        network = "calico" if helm else "bridge"
        cluster = f'kubernetes: {{version: "{version}", containerd: "{release}", network: {network}, device_plugin: own}}'
        (self.bench.site / "site.yml").write_text(f"{text}\n{cluster}\n")

    def cause(self) -> str:
        """Why stage kubernetes failed on the head; the other host would wait a minute for a cluster that never comes."""
        deployment = self.bench.deploy("--json", "--stage", "kubernetes", "--hosts", "head")
        assert deployment.end() == 1, deployment.tail
        run = self.bench.journal("run_started")[-1]["run"]
        failures = {e["host"]: str(e["cause"]) for e in self.bench.journal("host_failed", run)}
        return failures["head"]

    def said(self, script: str) -> str:
        """What a script printed on the head."""
        done = self.bench.shell("head", script)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def version(self, package: str) -> str:
        """Of an installed package."""
        return self.said(f"dpkg-query -W -f '${{Version}}' {package}")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("makers")
    with raised(RackSpec(own_name("makers"), 2), folder / "logs", Bench) as bench:
        write_secrets(bench.site / "secrets", slurm=False, kubernetes=True)
        key = "  kubernetes_encryption_key: {file: secrets/kubernetes_encryption_key}\n"
        text = (bench.site / "site.yml").read_text().replace("\nsecrets:\n", f"\nsecrets:\n{key}")
        address = str(bench.rack.gateway)
        with served(folder / "served", folder / "keyring", address, PORT) as makers:
            found = World(bench, makers, text)
            makers.publish("1.35", [ASKED, NEWER])
            makers.publish_containerd(["2.3.1", "2.4.0"])
            found.choose()
            first = bench.deploy("--json", "--stage", "base")
            assert first.end() in {0, 3}, first.tail
            yield found


@pytest.fixture(autouse=True)
def whole(world: World) -> Iterator[None]:
    """The repositories and the site as they were, after each test."""
    yield
    world.makers.publish("1.35", [ASKED, NEWER])
    world.choose()


def test_a_key_that_is_not_the_one_named_is_refused(world: World) -> None:
    world.choose(fingerprint=world.makers.fingerprint[::-1])
    cause = world.cause()
    assert "is not the one that was named" in cause
    assert world.makers.fingerprint in cause
    assert world.said("ls /usr/share/keyrings | grep -c appliance-containerd; true") == "0"


def _foreign(world: World, folder: Path) -> None:
    repository.make_keyring(folder, "somebody else")
    world.makers.publish("1.35", [ASKED], folder)


def _tampered(world: World, folder: Path) -> None:
    list_of = world.makers.folder / "kubernetes/v1.35/deb/Packages"
    list_of.write_text(list_of.read_text().replace("1.35.4-1.1", "1.35.5-1.1"))


@pytest.mark.parametrize(
    ("spoil", "words"), [(_foreign, "not signed"), (_tampered, "Hash Sum mismatch")]
)
def test_a_repository_of_a_foreign_key_or_with_a_changed_list_is_refused(
    world: World, tmp_path: Path, spoil: object, words: str
) -> None:
    assert callable(spoil)
    spoil(world, tmp_path / "other")
    assert words in world.cause()
    assert world.said("command -v kubeadm || echo none") == "none"


def test_a_release_nobody_offers_is_refused_with_what_there_is(world: World) -> None:
    world.choose("1.35.6")
    cause = world.cause()
    assert "no repository of this host offers kubeadm 1.35.6" in cause
    assert NEWER in cause


def test_the_patch_release_is_found_fetched_and_held_though_there_is_a_newer_one(
    world: World,
) -> None:
    assert LOOK_ALIKE in world.cause()
    for name in ("kubeadm", "kubelet", "kubectl"):
        assert world.version(name) == ASKED
    assert world.version("containerd.io") == "2.3.1-1~debian.12~bookworm"
    held = {"containerd.io", "kubeadm", "kubectl", "kubelet"}
    assert held <= set(world.said("apt-mark showhold").split())
    origin = world.said("apt-cache policy kubeadm")
    assert f"http://{world.bench.rack.gateway}:{PORT}/kubernetes/v1.35/deb" in origin
    kept = world.said("apt-get --simulate -q upgrade")
    assert NEWER not in kept.replace(f"Candidate: {NEWER}", "")
    assert "version = 3" in world.said("cat /etc/containerd/config.toml")


def test_a_hold_that_was_taken_away_is_put_back(world: World) -> None:
    world.said("apt-mark unhold kubelet")
    assert LOOK_ALIKE in world.cause()
    assert "kubelet" in world.said("apt-mark showhold").split()


def test_helm_is_brought_by_its_digest_or_not_at_all(world: World) -> None:
    name, digest = world.makers.publish_helm("v3.21.4")
    url = f"http://{world.bench.rack.gateway}:{PORT}/{name}"
    world.choose(helm=f'{{url: {url}, sha256: "{digest[::-1]}"}}')
    assert "is another archive than the one pinned" in world.cause()
    assert world.said("ls /usr/local/lib/appliance/helm 2>/dev/null || echo none") == "none"
    world.choose(helm=f'{{url: {url}, sha256: "{digest}"}}')
    assert LOOK_ALIKE in world.cause()
    assert world.said("/usr/local/lib/appliance/helm version") == "v3.21.4"


def test_the_distributions_own_containerd_takes_the_place_of_dockers(world: World) -> None:
    world.choose(release="1.6")
    assert LOOK_ALIKE in world.cause()
    assert world.version("containerd").startswith("1.6.")
    assert "version = 2" in world.said("cat /etc/containerd/config.toml")
    assert world.said("ls /etc/apt/sources.list.d | grep -c containerd; true") == "0"
    assert world.said("ctr --address /run/containerd/containerd.sock version | grep -c 1.6") != "0"
