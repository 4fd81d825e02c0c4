"""The compiled programs tell their release, need no library, and the images made of them have the names they are asked for by."""

import json

import pytest

from appliance.adapters.process import run
from appliance.lab.kubernetes_build import CONTROL_IMAGES, HOST_IMAGES, MODULES, one_build
from appliance.lab.programs import COREDNS, ETCD, HELM, KAI, KUBERNETES, Module, built
from tests.integration.api_server import CACHE, quietly

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("all_built")]
TELL = (
    (KUBERNETES, "kubeadm", ("version", "--output", "short")),
    (KUBERNETES, "kubelet", ("--version",)),
    (KUBERNETES, "kube-apiserver", ("--version",)),
    (KUBERNETES, "kube-proxy", ("--version",)),
    (ETCD, "etcd", ("--version",)),
    (ETCD, "etcdutl", ("version",)),
    (COREDNS, "coredns", ("-version",)),
    (HELM, "helm", ("version", "--short")),
)


@pytest.fixture(scope="module")
def all_built() -> None:
    with one_build(CACHE, quietly):
        for module in (*MODULES, HELM):
            built(CACHE, module, quietly)


def told(module: Module, name: str, *words: str) -> str:
    """What a program prints."""
    return run((str(CACHE / module.folder_name / name), *words)).stdout


@pytest.mark.parametrize(("module", "name", "words"), TELL, ids=lambda given: str(given)[:20])
def test_a_program_is_of_the_release_its_module_names(
    module: Module, name: str, words: tuple[str, ...]
) -> None:
    assert module.version in told(module, name, *words)


def test_the_client_tells_no_release_of_nobody() -> None:
    found = json.loads(told(KUBERNETES, "kubectl", "version", "--client", "--output", "json"))
    client = found["clientVersion"]
    assert client["gitVersion"] == f"v{KUBERNETES.version}"
    assert (client["major"], client["minor"]) == tuple(KUBERNETES.version.split(".")[:2])


@pytest.mark.parametrize("module", [*MODULES, HELM], ids=lambda module: module.name)
def test_programs_need_no_library_of_a_host(module: Module) -> None:
    for name, _ in module.programs:
        done = run(("ldd", str(CACHE / module.folder_name / name)), check=False)
        assert "not a dynamic executable" in done.stdout + done.stderr


def test_kubeadm_finds_all_images_it_asks_for() -> None:
    release = f"--kubernetes-version=v{KUBERNETES.version}"
    wanted = told(KUBERNETES, "kubeadm", "config", "images", "list", release).split()
    assert len(wanted) == 7
    assert set(wanted) <= {*CONTROL_IMAGES.values(), *HOST_IMAGES.values()}


def test_every_program_of_kai_has_an_image_of_its_release() -> None:
    for name, _ in KAI.programs:
        assert HOST_IMAGES[name].endswith(f"/{name.removeprefix('kai-')}:v{KAI.version}")
