"""What the modules of roles containerd and kubernetes make of kubeadm's and kubectl's words."""

import base64
import hashlib
import json
import re
import subprocess  # noqa: TID251 - runs a unit's command as systemd would
import tarfile
import time
from pathlib import Path
from typing import Any, ClassVar

import jinja2
import pytest
import yaml  # noqa: TID251 - reads what Ansible would
from ansible.plugins.test.core import version_compare
from ansible_collections.appliance.host.plugins.module_utils import kubelet
from ansible_collections.appliance.host.plugins.module_utils.disk import sha256
from ansible_collections.appliance.host.plugins.module_utils.resources import (
    containerd_images as images,
)
from ansible_collections.appliance.host.plugins.module_utils.resources import (
    coredns,
)
from ansible_collections.appliance.host.plugins.module_utils.resources import (
    kubeadm_control as control,
)
from ansible_collections.appliance.host.plugins.module_utils.resources import (
    kubeadm_member as member,
)
from ansible_collections.appliance.host.plugins.module_utils.resources import (
    kubeadm_ticket as ticket,
)
from ansible_collections.appliance.host.plugins.module_utils.resources import (
    kubernetes_manifests as manifests,
)
from ansible_collections.appliance.host.plugins.module_utils.resources import (
    kubernetes_node as node,
)

from appliance.config.data import root
from appliance.mig import node as on_demand
from appliance.models.drain import HEALTH
from tests.support.role_programs import program
from tests.support.role_units import RoleText

NODE: dict[str, Any] = {"metadata": {"name": "gpu-1", "labels": {"a": "1"}}, "spec": {}}


etcd = program(Path("roles/kubernetes/files/usr/local/sbin/appliance-etcd"))


def archive(file: Path, *names: str) -> Path:
    """A docker archive of images of these names."""
    manifest = file.with_name("manifest.json")
    manifest.write_text(json.dumps([{"RepoTags": [name]} for name in names]))
    with tarfile.open(file, "w") as opened:
        opened.add(manifest, "manifest.json")
    return file


def test_archives_are_found_by_name_and_know_their_images(tmp_path: Path) -> None:
    made = archive(tmp_path / "b.tar", "x/pause:1", "x/etcd:2")
    (tmp_path / "b.tar.sha256").write_text(
        f"{hashlib.sha256(made.read_bytes()).hexdigest()}  b.tar\n"
    )
    assert images.archives([str(tmp_path), str(tmp_path / "missing")]) == [str(made)]
    assert images.names(str(made)) == ["x/pause:1", "x/etcd:2"]
    assert images.stated(str(made)) == sha256(str(made))
    assert images.stated(str(tmp_path / "other.tar")) == ""


def test_an_archive_that_was_cut_off_is_left_to_its_digest(tmp_path: Path) -> None:
    made = archive(tmp_path / "b.tar", "x/pause:1")
    for content in (made.read_bytes()[:700], b"", b"not a tar"):
        made.write_bytes(content)
        assert images.wanted_of([str(made)], ["pause"]) == {str(made): []}


def test_hosts_without_a_control_plane_get_all_images_but_those_of_static_pods(
    tmp_path: Path,
) -> None:
    server = archive(tmp_path / "a.tar", "registry.k8s.io/kube-apiserver:v1.35.4")
    names = archive(tmp_path / "b.tar", "r:5000/coredns/coredns:v1@sha256:0", "x/etcd:3")
    static = ["etcd", "kube-apiserver"]
    assert set(images.wanted_of([str(server), str(names)], static)) == {str(names)}
    assert set(images.wanted_of([str(server), str(names)], [])) == {str(server), str(names)}


def test_the_list_of_images_is_written_once(tmp_path: Path) -> None:
    file = tmp_path / "folder/images.json"
    assert images.store(["a:1"], str(file))
    assert not images.store(["a:1"], str(file))
    assert images.store([], str(file))
    assert file.read_text() == "[]"


class Refused(Exception):
    """What fail_json ends a module with."""


class Told:
    """A module of which a failure and the commands count."""

    params: ClassVar[dict[str, str]] = {"namespace": "k8s.io"}

    def __init__(self) -> None:
        self.commands: list[list[str]] = []

    def run_command(self, argv: list[str]) -> tuple[int, str, str]:
        self.commands.append(argv)
        return 0, "", ""

    def fail_json(self, msg: str) -> None:
        raise Refused(msg)


@pytest.mark.parametrize(
    ("stated", "said"), [("", "has no .sha256"), ("0" * 64, "is not what its .sha256 says")]
)
def test_an_archive_without_its_digest_is_never_imported(
    tmp_path: Path, stated: str, said: str
) -> None:
    made, told = archive(tmp_path / "b.tar", "x/pause:1"), Told()
    if stated:
        (tmp_path / "b.tar.sha256").write_text(f"{stated}  b.tar\n")
    with pytest.raises(Refused, match=said):
        images._import(told, str(made))
    assert told.commands == []
    (tmp_path / "b.tar.sha256").write_text(f"{sha256(str(made))}  b.tar\n")
    images._import(told, str(made))
    assert told.commands[-1][-1] == str(made)


class KubeDns:
    """A cluster with what kubectl would print of CoreDNS."""

    def __init__(self, **objects: dict[str, Any]) -> None:
        self.objects = objects

    def get(self, kind: str) -> dict[str, Any]:
        return self.objects.get(kind, {})


def deployment(**spec: Any) -> dict[str, Any]:
    """CoreDNS, with this template."""
    template = {"spec": {"priorityClassName": "system-cluster-critical", **spec}}
    return {"spec": {"template": template}}


def test_coredns_is_brought_to_a_host_for_each_pod_once() -> None:
    made = KubeDns(deployment=deployment(affinity=coredns.TOGETHER))
    budget, patch = coredns.changes(made, spread=True)
    assert budget[0] == ["apply", "-f", "-"]
    rules = json.loads(patch[0][-1])["spec"]["template"]["spec"]["affinity"]
    assert rules == {**coredns.APART, "$patch": "replace"}
    there = KubeDns(
        deployment=deployment(affinity=coredns.APART),
        poddisruptionbudget=json.loads(budget[1] or ""),
    )
    assert coredns.changes(there, spread=True) == []
    # Where one host alone can take pods, the second would never start and the first never leave.
    words = [words[0] for words, _ in coredns.changes(there, spread=False)]
    assert words == ["delete", "patch"]
    assert coredns.changes(made, spread=False) == []


def test_a_budget_of_another_size_and_a_lost_priority_are_put_right() -> None:
    odd = coredns.budget()
    odd["spec"]["minAvailable"] = 2
    found = KubeDns(
        deployment=deployment(affinity=coredns.APART, priorityClassName=""),
        poddisruptionbudget=odd,
    )
    budget, patch = coredns.changes(found, spread=True)
    assert budget[0][0] == "apply"
    spec = json.loads(patch[0][-1])["spec"]["template"]["spec"]
    assert spec == {"priorityClassName": "system-cluster-critical"}


def test_a_name_server_of_others_is_left_alone() -> None:
    assert coredns.changes(KubeDns(), spread=True) == []


def test_kubeadms_reason_is_its_error_not_its_last_line() -> None:
    said = "[init] Using v1.35\nerror execution phase preflight: x\n\t[ERROR Swap]: swap is on\nsee --v=5\n"
    assert control.complaint(said) == "error execution phase preflight: x"
    assert control.complaint("") == "no reason given"


CGROUPS = (
    "I1123 20:00:01.0 1 server.go:1] started\n"
    'E1123 20:00:01.1 1 run.go:72] "command failed" err="failed to run Kubelet: cgroup v1 is \\"off\\""\n'
)


@pytest.mark.parametrize(
    ("active", "logged", "told"),
    [
        (0, CGROUPS, ""),
        (3, CGROUPS, '; kubelet ends: failed to run Kubelet: cgroup v1 is "off"'),
        (3, "panic: no disk\n", "; kubelet ends: panic: no disk"),
        (3, "", "; kubelet does not run (journalctl -u kubelet)"),
    ],
)
def test_a_kubelet_that_ends_says_why_in_its_own_words(active: int, logged: str, told: str) -> None:
    def run(argv: list[str]) -> tuple[int, str, str]:
        return (active, "", "") if argv[0] == "systemctl" else (0, logged, "")

    assert kubelet.last_words(run) == told


def test_kubeadms_vain_wait_is_told_with_kubelets_last_line(tmp_path: Path) -> None:
    class Module(Told):
        params: ClassVar[dict[str, Any]] = {"config": "x", "skip": [], "wait": 0}

        def run_command(self, argv: list[str], **_: Any) -> tuple[int, str, str]:
            if argv[0] == "kubeadm":
                return (1, "", "error execution phase wait-control-plane: timed out")
            return (3, "", "") if argv[0] == "systemctl" else (0, CGROUPS, "")

    with pytest.raises(Refused, match=r'timed out; kubelet ends: failed to run .* is "off"$'):
        control.Control(Module()).make()


def test_a_control_plane_remembers_what_it_was_brought_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "STAMP", str(tmp_path / "deep/stamp"))
    assert control.stored() == ""
    control.store("abc")
    assert control.stored() == "abc"
    assert control.digest(str(tmp_path / "none")) == ""


GIVEN: dict[str, Any] = {
    "api": "v1beta3",
    "endpoint": "10.0.0.100:6443",
    "token": "a.b",
    "ca_hash": "sha256:1",
    "registration": {"name": "gpu-1"},
    "certificate_key": "key",
    "control_address": "",
    "certificate": "",
}


def test_a_host_joins_with_the_authority_pinned() -> None:
    found = member.document(GIVEN)
    assert found["discovery"]["bootstrapToken"] == {
        "apiServerEndpoint": "10.0.0.100:6443",
        "token": "a.b",
        "caCertHashes": ["sha256:1"],
    }
    assert "unsafeSkipCAVerification" not in json.dumps(found)
    assert "controlPlane" not in found


def test_a_host_joins_with_a_certificate_of_its_own_node_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[dict[str, Any]] = []

    class Module(Told):
        params: ClassVar[dict[str, Any]] = {
            **GIVEN,
            **{"token": "", "authority": "A", "certificate": "C", "key": "K", "skip": []},
        }

        def run_command(self, argv: list[str]) -> tuple[int, str, str]:
            read.append(json.loads(Path(argv[-1]).read_text()))
            file = Path(read[0]["discovery"]["file"]["kubeConfigPath"])
            assert file.stat().st_mode & 0o777 == 0o600
            read.append(json.loads(file.read_text()))
            return 0, "", ""

    monkeypatch.setattr(member, "AUTHORITY", str(tmp_path / "none"))
    monkeypatch.setattr(member, "CREDENTIALS", str(tmp_path / "none"))
    monkeypatch.setattr(member, "MEMORY", str(tmp_path))
    member._join(Module())
    joins, access = read
    assert "bootstrapToken" not in joins["discovery"]
    assert access["clusters"][0]["cluster"]["server"] == "https://10.0.0.100:6443"
    user = access["users"][0]["user"]
    assert {base64.b64decode(text) for text in user.values()} == {b"C", b"K"}
    assert not list(tmp_path.iterdir())


def test_a_control_plane_joins_with_its_own_address() -> None:
    found = member.document({**GIVEN, "control_address": "10.0.0.2"})
    assert found["controlPlane"] == {
        "localAPIEndpoint": {"advertiseAddress": "10.0.0.2", "bindPort": 6443},
        "certificateKey": "key",
    }


@pytest.mark.parametrize(
    ("reset", "told"),
    [
        ((0, "", ""), r"FileAvailable--x\]: it exists$"),
        (
            (1, "", "error: no CRI"),
            r"FileAvailable--x\]: it exists, after kubeadm reset: error: no CRI$",
        ),
    ],
)
def test_a_join_that_fails_tells_what_could_not_be_reset_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reset: tuple[int, str, str], told: str
) -> None:
    class Module(Told):
        params: ClassVar[dict[str, Any]] = {**GIVEN, "skip": []}

        def run_command(self, argv: list[str]) -> tuple[int, str, str]:
            if argv[0] == "systemctl":
                return (0, "", "")
            return reset if argv[1] == "reset" else (1, "", "[ERROR FileAvailable--x]: it exists")

    (tmp_path / "ca.crt").touch()
    monkeypatch.setattr(member, "AUTHORITY", str(tmp_path / "ca.crt"))
    monkeypatch.setattr(member, "MEMORY", str(tmp_path))
    with pytest.raises(Refused, match=told):
        member._join(Module())


def test_a_host_without_credentials_is_in_no_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member, "AUTHORITY", str(tmp_path / "ca.crt"))
    assert member.ca_hash() == ""
    (tmp_path / "ca.crt").write_text(
        "-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n"
    )
    monkeypatch.setattr(member, "CREDENTIALS", str(tmp_path / "kubelet.conf"))
    assert member.ca_hash() == ""
    (tmp_path / "kubelet.conf").touch()
    assert member.ca_hash() == hashlib.sha256(b"\x00\x01\x02").hexdigest()


def test_the_authority_is_pinned_by_its_public_key() -> None:
    pem = "-----BEGIN PUBLIC KEY-----\nAAEC\n-----END PUBLIC KEY-----\n"
    pinned = hashlib.sha256(bytes([0, 1, 2])).hexdigest()
    assert ticket.public_key_hash(pem) == f"sha256:{pinned}"


@pytest.mark.parametrize(
    ("taints", "owner", "words"),
    [
        ([], "kubernetes", []),
        (
            [],
            "slurm",
            [["taint", "--overwrite", "node", "gpu-1", "appliance/owner=slurm:NoExecute"]],
        ),
        ([("slurm", "NoExecute")], "slurm", []),
        ([("slurm", "NoExecute")], "kubernetes", [["taint", "node", "gpu-1", "appliance/owner-"]]),
        (
            [("slurm", "NoSchedule")],
            "slurm",
            [["taint", "--overwrite", "node", "gpu-1", "appliance/owner=slurm:NoExecute"]],
        ),
    ],
)
def test_a_host_carries_the_taint_of_its_owner(
    taints: list[tuple[str, str]], owner: str, words: list[list[str]]
) -> None:
    spec = {"taints": [{"key": "appliance/owner", "value": v, "effect": e} for v, e in taints]}
    assert node.differences({**NODE, "spec": spec}, {"a": "1"}, [], owner) == words


def test_a_cordon_of_ours_is_taken_back_and_any_other_stays() -> None:
    cordoned: dict[str, Any] = {"metadata": {"name": "gpu-1"}, "spec": {"unschedulable": True}}
    assert node.differences(cordoned, {}, [], "kubernetes") == []
    cordoned["metadata"]["annotations"] = {"appliance/drained": "appliance: the driver is changed"}
    assert node.differences(cordoned, {}, [], "kubernetes") == [
        ["uncordon", "gpu-1"],
        ["annotate", "node", "gpu-1", "appliance/drained-"],
    ]


@pytest.mark.parametrize("reason", [on_demand.REASON, HEALTH + "gpu.xid GPU 2: Xid 79"])
def test_a_cordon_of_the_host_itself_is_ended_by_the_host_alone(reason: str) -> None:
    """While it divides its GPUs, or because it is unfit."""
    notes = {on_demand.DRAINED: reason}
    cordoned = {
        "metadata": {"name": "gpu-1", "annotations": notes},
        "spec": {"unschedulable": True},
    }
    assert node.differences(cordoned, {}, [], "kubernetes") == []


def test_only_labels_that_differ_are_set() -> None:
    assert node.differences(NODE, {"a": "1", "b": "2"}, [], "kubernetes") == [
        ["label", "--overwrite", "node", "gpu-1", "b=2"]
    ]


def test_of_a_family_of_labels_a_node_keeps_none_that_is_not_its_own() -> None:
    labels = {"tier-1": "leaves-1", "tier-2": "spine-1", "other": "kept"}
    seen = {"metadata": {"name": "gpu-1", "labels": labels}}
    assert node.differences(seen, {"tier-1": "leaves-2"}, ["tier-"], "kubernetes") == [
        ["label", "--overwrite", "node", "gpu-1", "tier-1=leaves-2", "tier-2-"]
    ]
    assert node.differences(seen, {"tier-1": "leaves-1"}, [], "kubernetes") == []
    assert node.differences(seen, labels, ["tier-"], "kubernetes") == []


def test_a_dry_run_where_there_is_no_cluster_asks_no_program(run: Any, host: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(node, "ADMIN", str(tmp_path / "none"))
    assert run("kubernetes_node", check=True, name="gpu-1")["changed"] is True
    assert host.calls == []


def test_a_node_without_a_report_is_not_ready() -> None:
    assert node.ready({})[0] is False
    conditions = [{"type": "Ready", "status": "False", "message": "no network"}]
    assert node.ready({"status": {"conditions": conditions}}) == (False, "no network")


def test_manifests_are_applied_by_name_and_what_is_unchanged_is_no_change(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "note.txt"):
        (tmp_path / name).touch()
    single = tmp_path / "b.yaml"
    assert manifests.files([str(tmp_path), str(tmp_path / "none"), str(single)]) == [
        str(tmp_path / "a.yml"),
        str(single),
        str(single),
    ]
    assert manifests.changed("service/a unchanged\ndeployment.apps/b configured\n") == [
        "deployment.apps/b configured"
    ]


class Kubectl:
    """A module whose kubectl knows the version of each resource, and says in order what it says to apply."""

    def __init__(self, *said: str, check_mode: bool = False) -> None:
        self.said, self.ran, self.given = list(said), list[list[str]](), list[str | None]()
        self.check_mode = check_mode
        self.versions = {"Deployment/calico/operator": 1}

    def run_command(self, argv: list[str], data: str | None = None) -> tuple[int, str, str]:
        self.ran.append(argv)
        self.given.append(data)
        if "get" in argv:
            keys = [(name.split("/"), str(v)) for name, v in self.versions.items()]
            items = [
                {
                    "kind": name[0],
                    "metadata": {"namespace": name[1], "name": name[2], "resourceVersion": v},
                }
                for name, v in keys
            ]
            return 0, json.dumps({"kind": "List", "items": items}), ""
        if "--server-side" in argv:
            self.versions |= {"CustomResourceDefinition//installations": 2}
            return 0, "serverside-applied\n", ""
        err = self.said.pop(0) if self.said else ""
        return (1, "", err) if err else (0, "deployment.apps/operator unchanged\n", "")

    def fail_json(self, msg: str) -> None:
        raise GaveUp(msg)


LARGE = (
    'The CustomResourceDefinition "installations.operator.tigera.io" is invalid: '
    "metadata.annotations: Too long: must have at most 262144 bytes"
)


def test_what_is_too_large_for_kubectls_annotation_is_applied_by_the_server() -> None:
    told = Kubectl(LARGE, LARGE)
    made = ["CustomResourceDefinition/installations applied"]
    assert manifests._apply(told, "tigera-operator.yaml") == made
    assert manifests._apply(told, "tigera-operator.yaml") == []


def test_a_kind_that_came_a_moment_ago_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    unknown = 'no matches for kind "Installation" in version "operator.tigera.io/v1"'
    told = Kubectl(unknown, unknown)
    assert manifests._apply(told, "network.yml") == []
    assert len(told.ran) == 3
    with pytest.raises(GaveUp, match=r"network\.yml is not accepted: field is immutable"):
        manifests._apply(Kubectl("field is immutable"), "network.yml")
    monkeypatch.setattr(manifests, "PATIENCE", -1.0)
    with pytest.raises(GaveUp, match="no matches for kind"):
        manifests._apply(Kubectl(unknown), "network.yml")


@pytest.mark.parametrize("text", [None, '{"kind": "List", "items": []}'])
def test_what_stands_in_no_file_reaches_every_command(text: str | None) -> None:
    told = Kubectl(LARGE)
    assert manifests._apply(told, "-", text)
    assert told.given == [text] * 4
    with pytest.raises(GaveUp, match="a manifest of the role is not accepted: no"):
        manifests._apply(Kubectl("no"), "-", text)


@pytest.mark.parametrize(
    "lacks",
    ['no matches for kind "X"', 'Error from server (NotFound): namespaces "jobset" not found'],
)
def test_a_dry_run_takes_what_is_not_there_yet_for_a_change(lacks: str) -> None:
    told = Kubectl(lacks, check_mode=True)
    assert manifests._apply(told, "network.yml") == ["network.yml would be applied"]
    assert told.ran == [[*manifests.KUBECTL, "apply", "-f", "network.yml", "--dry-run=server"]]
    with pytest.raises(GaveUp, match="Unable to connect"):
        manifests._apply(Kubectl("Unable to connect", check_mode=True), "network.yml")


def test_manifests_of_a_role_go_to_the_server_as_one_list(run: Any, host: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    given = [{"kind": "Namespace", "metadata": {"name": "a"}}]
    known = "kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 60s apply -f -"
    host.answer(known, (0, "namespace/a created\n", ""), (0, "namespace/a unchanged\n", ""))
    first = run("kubernetes_manifests", manifests=given)
    assert (first["changed"], first["applied"]) == (True, ["namespace/a created"])
    assert run("kubernetes_manifests", manifests=given)["changed"] is False
    monkeypatch.setattr(manifests, "ADMIN", str(tmp_path / "none"))
    assert run("kubernetes_manifests", check=True, manifests=given)["changed"] is True
    assert run("kubernetes_manifests", check=True)["changed"] is False
    assert len(host.calls) == 2


def rendered_vip(version: str, makes: bool, seen: dict[str, Any]) -> str:
    """The line of kube-vip's manifest that names its kubeconfig."""
    folder = root() / "roles/kubernetes"
    variables = yaml.safe_load((folder / "vars/main.yml").read_text())
    environment = jinja2.Environment()
    environment.tests["version"] = version_compare
    known = {
        "kubernetes_version": version,
        "__kubernetes_makes": makes,
        "__kubernetes_before": seen,
    }
    chosen = environment.from_string(variables["__kubernetes_super"]).render(**known) == "True"
    file = folder / "templates/etc/kubernetes/manifests/kube-vip.yaml.j2"
    made = environment.from_string(file.read_text()).render(__kubernetes_super=chosen)
    (volume,) = yaml.safe_load(made)["spec"]["volumes"]
    return str(volume["hostPath"]["path"]).rpartition("/")[2]


@pytest.mark.parametrize(
    ("version", "makes", "seen", "file"),
    [
        ("1.35", True, {"ca_hash": "", "super_admin": False}, "super-admin.conf"),
        ("1.35", True, {"ca_hash": "1", "super_admin": True}, "super-admin.conf"),
        # The first control host was made anew: it joined, and joining leaves no super-admin.conf.
        ("1.35", False, {"ca_hash": "", "super_admin": False}, "admin.conf"),
        ("1.35", True, {"ca_hash": "1", "super_admin": False}, "admin.conf"),
        ("1.35", False, {}, "admin.conf"),
        ("1.28", True, {"ca_hash": "", "super_admin": False}, "admin.conf"),
    ],
)
def test_kube_vip_has_the_kubeconfig_that_is_there(
    version: str, makes: bool, seen: dict[str, Any], file: str
) -> None:
    assert rendered_vip(version, makes, seen) == file


def test_the_rights_that_cannot_be_taken_back_are_held_while_the_cluster_is_made_alone() -> None:
    tasks = RoleText("kubernetes").tasks
    held = [
        (number, task)
        for number, task in enumerate(tasks)
        if task.get("appliance.host.files", {}).get("files") == "{{ __kubernetes_vip_files }}"
    ]
    made = [n for n, task in enumerate(tasks) if "appliance.host.kubeadm_control" in task]
    (first, during), (last, after) = held
    assert first < made[0] < last
    assert "__kubernetes_before.desk | length == 0" in during["when"]
    assert after["vars"] == {"__kubernetes_super": False}
    assert after["when"] == "kubernetes_virtual_address | length > 0"


@pytest.mark.parametrize(
    ("policy", "state", "stays"),
    [
        ("static", '{"policyName":"static","defaultCpuSet":"0-7"}', True),
        ("static", '{"policyName":"none","defaultCpuSet":""}', False),
        ("", '{"policyName":"none","defaultCpuSet":""}', True),
        ("", '{"policyName":"static","defaultCpuSet":"0-7"}', False),
    ],
)
def test_kubelets_state_goes_only_where_its_policy_is_another(
    policy: str, state: str, stays: bool, tmp_path: Path
) -> None:
    drop_in = "templates/etc/systemd/system/kubelet.service.d/50-appliance.conf.j2"
    text = (root() / "roles/kubernetes" / drop_in).read_text()
    (command,) = re.findall(r"ExecStartPre=-/bin/sh -c '(.*)'", text, re.S)
    # As systemd reads it: lines joined, $$ for $, and escapes also between single quotes.
    for written, is_read in (("\\\n", " "), ("$$", "$"), ('\\"', '"')):
        command = command.replace(written, is_read)
    command = command.replace("/var/lib/kubelet", str(tmp_path))
    command = command.replace("{{ __kubernetes_settings }}", str(tmp_path))
    (tmp_path / "kubelet.yml").write_text(f"cpuManagerPolicy: {policy}\n" if policy else "")
    (tmp_path / "cpu_manager_state").write_text(state)
    subprocess.run(["/bin/sh", "-c", command], check=True)
    assert (tmp_path / "cpu_manager_state").exists() is stays


class GaveUp(Exception):
    """fail_json was called."""


class Moody:
    """A module whose kubectl fails so many times."""

    def __init__(self, failures: int) -> None:
        self.failures, self.asked = failures, 0

    def run_command(self, argv: list[str]) -> tuple[int, str, str]:
        self.asked += 1
        return (
            (1, "", "etcdserver: request timed out") if self.asked <= self.failures else (0, "", "")
        )

    def fail_json(self, msg: str) -> None:
        raise GaveUp(msg)


def test_a_write_the_api_gives_up_is_tried_again_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    told = Moody(2)
    node._tell(told, ["label", "node", "gpu-1", "a=b"])
    assert told.asked == 3
    monkeypatch.setattr(node, "PATIENCE", 0.0)
    with pytest.raises(GaveUp, match="kubectl label: etcdserver: request timed out"):
        node._tell(Moody(99), ["label", "node", "gpu-1", "a=b"])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of backups whose etcdctl writes what it is told to."""

    def snapshot(*words: str) -> str:
        Path(words[-1]).write_bytes(b"state")
        return ""

    monkeypatch.setattr(etcd, "etcdctl", snapshot)
    return tmp_path / "backups"


def test_a_backup_has_a_digest_and_is_for_roots_eyes(folder: Path) -> None:
    etcd.save(str(folder), 5)
    (name,) = etcd.backups(str(folder))
    assert (folder / f"{name}.snapshot").stat().st_mode & 0o777 == 0o600
    assert not (folder / f"{name}.sha256").stat().st_mode & 0o111
    assert (folder / f"{name}.sha256").read_text().split()[0] == hashlib.sha256(
        b"state"
    ).hexdigest()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_whole_backup_whose_digest_a_power_cut_emptied_will_do(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = b"of this cluster"
    monkeypatch.setattr(etcd, "authority_line", lambda: b"this cluster")
    folder.mkdir()
    (folder / "a.snapshot").write_bytes(state + hashlib.sha256(state).digest())
    (folder / "a.sha256").touch()
    assert etcd.examined(str(folder), "a") == etcd.digest(folder / "a.snapshot")
    (folder / "a.snapshot").write_bytes(state)
    with pytest.raises(etcd.Problem, match="was cut off"):
        etcd.examined(str(folder), "a")


def test_the_oldest_backups_go(folder: Path) -> None:
    folder.mkdir()
    for year in range(2020, 2026):
        (folder / f"{year}0101T000000Z.snapshot").touch()
        (folder / f"{year}0101T000000Z.sha256").touch()
    etcd.save(str(folder), 3)
    assert [name[:4] for name in etcd.backups(str(folder))][:2] == ["2024", "2025"]
    assert len(list(folder.iterdir())) == 6
    assert time.gmtime().tm_year >= 2026


def test_all_stay_where_none_shall_go(folder: Path) -> None:
    folder.mkdir()
    (folder / "20200101T000000Z.snapshot").touch()
    etcd.save(str(folder), 0)
    assert len(etcd.backups(str(folder))) == 2


def test_two_backups_of_one_second_have_names_of_their_own(folder: Path) -> None:
    for _ in range(2):
        etcd.save(str(folder), 0)
    assert len(etcd.backups(str(folder))) == 2
    for name in etcd.backups(str(folder)):
        stated = (folder / f"{name}.sha256").read_text().split()
        assert stated == [etcd.digest(folder / f"{name}.snapshot"), f"{name}.snapshot"]


@pytest.mark.parametrize("error", [etcd.Problem("deadline exceeded"), FileNotFoundError("etcdctl")])
def test_a_backup_that_is_not_written_leaves_nothing(
    error: Exception, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: str) -> str:
        raise error

    monkeypatch.setattr(etcd, "etcdctl", refused)
    with pytest.raises(type(error), match=str(error)):
        etcd.save(str(folder), 0)
    assert list(folder.iterdir()) == []


def test_a_control_plane_is_in_no_cluster_before_it_has_etcd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AUTHORITY", "CREDENTIALS", "STATE"):
        monkeypatch.setattr(member, name, str(tmp_path / name))
    (tmp_path / "AUTHORITY").write_text(
        "-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n"
    )
    (tmp_path / "CREDENTIALS").touch()
    assert member.ca_hash() != ""
    assert member.ca_hash(control=True) == ""
    (tmp_path / "STATE").touch()
    assert member.ca_hash(control=True) == member.ca_hash()


def test_members_of_etcd_are_known_by_name_and_by_address_before_they_started() -> None:
    said = (
        "59253c36172e2306, started, head-3, https://10.0.0.3:2380, https://10.0.0.3:2379, false\n"
        "de3d5368f3ab26fa, unstarted, , https://10.0.0.2:2380, , false\n"
    )
    assert ticket.members(said) == [
        ("59253c36172e2306", "head-3", "10.0.0.3"),
        ("de3d5368f3ab26fa", "", "10.0.0.2"),
    ]
    assert ticket.members("") == []


class Programs:
    """Stands for Ansible's module: answers programs from a table, and remembers them."""

    def __init__(self, answers: dict[str, str], **params: Any) -> None:
        self.params = params
        self.answers = answers
        self.ran: list[str] = []
        self.given = ""

    def run_command(
        self, argv: list[str], environ_update: dict[str, str], data: str | None
    ) -> tuple[int, str, str]:
        """See AnsibleModule."""
        del environ_update
        line = " ".join(argv)
        self.ran.append(line)
        self.given = data or self.given
        if "-keyout" in argv:
            Path(argv[argv.index("-keyout") + 1]).write_text("KEY")
        if "upload-certs" in line:
            self.uploaded = Path(argv[-1]).read_text()
        return 0, next((said for words, said in self.answers.items() if words in line), ""), ""


MEMBERS = (
    "1, started, head-1, https://10.0.0.1:2380, https://10.0.0.1:2379, false\n"
    "2, started, head-2, https://10.0.0.2:2380, https://10.0.0.2:2379, false\n"
    "3, unstarted, , https://10.0.0.3:2380, , false\n"
)
ANSWERS = {
    "token create": "abcdef.secret",
    "openssl req": "REQUEST",
    "get certificatesigningrequest": base64.b64encode(b"SIGNED").decode(),
    "openssl": "-----BEGIN PUBLIC KEY-----\nAAEC\n-----END PUBLIC KEY-----\n",
    "member list": MEMBERS,
}


def desk_for(folder: Path, node_name: str, address: str, control: bool = True) -> Programs:
    """A ticket given to a host, and the programs that took."""
    config = folder / "kubeadm.yml"
    config.write_text("---\nkind: InitConfiguration\n\n---\nkind: ClusterConfiguration\n")
    found = Programs(
        ANSWERS,
        node=node_name,
        address=address,
        control=control,
        config=str(config),
        encryption_key="k",
    )
    found.params["ticket"] = ticket.Desk(found).give()
    return found


@pytest.mark.parametrize(
    ("name", "address", "number"), [("head-2", "10.0.0.2", "2"), ("head-3", "10.0.0.3", "3")]
)
def test_a_control_host_made_anew_leaves_etcd_before_it_joins(
    name: str, address: str, number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticket, "MEMORY", str(tmp_path))
    ran = desk_for(tmp_path, name, address).ran
    removed = [line for line in ran if "member remove" in line]
    assert [line.split()[-1] for line in removed] == [number]
    assert any(f"delete node {name}" in line for line in ran)


def test_a_gpu_host_that_joins_takes_nobody_out_of_etcd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticket, "MEMORY", str(tmp_path))
    (tmp_path / "ca.crt").write_text("CA")
    monkeypatch.setattr(ticket, "AUTHORITY", str(tmp_path / "ca.crt"))
    assert not any("etcdctl" in w for w in desk_for(tmp_path, "gpu-1", "10.0.0.9", False).ran)


def test_a_gpu_host_gets_a_certificate_of_its_own_node_and_no_token_that_would_do_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticket, "MEMORY", str(tmp_path))
    (tmp_path / "ca.crt").write_text("CA")
    monkeypatch.setattr(ticket, "AUTHORITY", str(tmp_path / "ca.crt"))
    found = desk_for(tmp_path, "gpu-1", "10.0.0.9", False)
    assert found.params["ticket"] == {"authority": "CA", "certificate": "SIGNED", "key": "KEY"}
    assert not any("token create" in line for line in found.ran)
    (made,) = [line for line in found.ran if "openssl req" in line]
    assert made.endswith("-subj /O=system:nodes/CN=system:node:gpu-1")
    spec = json.loads(found.given)["spec"]
    assert base64.b64decode(spec["request"]) == b"REQUEST"
    assert spec["expirationSeconds"] == 900
    names = ("create", "approve", "delete")
    steps = [name for line in found.ran for name in names if f" {name} " in line]
    assert steps == ["create", "approve", "delete"]
    # Every node may make requests: a name that one knows before could be taken.
    again = desk_for(tmp_path, "gpu-1", "10.0.0.9", False)
    assert json.loads(found.given)["metadata"] != json.loads(again.given)["metadata"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ca.crt", "kubeadm.yml"]


def test_a_cluster_that_signs_nothing_fails_the_join_and_keeps_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Module(Programs):
        """Answers programs, and raises what fails."""

        def fail_json(self, msg: str) -> None:
            """See AnsibleModule."""
            raise Refused(msg)

    monkeypatch.setattr(ticket, "MEMORY", str(tmp_path))
    monkeypatch.setattr(ticket, "PATIENCE_S", -1)
    found = Module({"openssl req": "REQUEST"}, node="gpu-1", control=False)
    with pytest.raises(Refused, match="signed no certificate"):
        ticket.Desk(found).give()
    assert "delete certificatesigningrequest appliance-gpu-1-joins-" in found.ran[-1]


def test_control_planes_that_join_at_once_are_given_one_key_outside_any_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticket, "MEMORY", str(tmp_path))
    second, third = (desk_for(tmp_path, f"head-{n}", f"10.0.0.{n}") for n in (2, 3))
    key = second.params["ticket"]["certificate_key"]
    assert key == third.params["ticket"]["certificate_key"]
    assert len(key) == 64
    assert f"kind: InitConfiguration\ncertificateKey: {key}\n" in second.uploaded
    assert not any(key in line for line in second.ran)
    assert [file.name for file in tmp_path.iterdir()] == ["kubeadm.yml"]


def token_secret(name: str, description: str) -> dict[str, Any]:
    """A bootstrap token as the cluster keeps it."""
    data = {"token-id": name, "token-secret": "0" * 16, "description": description}
    return {"data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}}


LEFT = {
    "items": [
        token_secret("aaaaaa", "appliance: gpu-1 joins"),
        token_secret("bbbbbb", "appliance: gpu-10 joins"),
        token_secret("cccccc", "somebody's own"),
        {"data": {"token-id": "ZGRkZGRk"}},
        {},
    ]
}


@pytest.mark.parametrize("trusted", ["ours", ""], ids=["joined", "not yet joined"])
def test_tokens_that_a_killed_run_left_for_a_host_are_taken_back_by_the_next(
    trusted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Module(Programs):
        check_mode = False

        def exit_json(self, **told: Any) -> None:
            raise EOFError(told)

    given = {"node": "gpu-1", "state": "present", "member_of": trusted, "control": False}
    found = Module({**ANSWERS, "get secrets": json.dumps(LEFT)}, **given)
    (tmp_path / "ca.crt").write_text("CA")
    monkeypatch.setattr(ticket, "AUTHORITY", str(tmp_path / "ca.crt"))
    monkeypatch.setattr(ticket, "MEMORY", str(tmp_path))
    monkeypatch.setattr(ticket, "AnsibleModule", lambda *_, **__: found)
    monkeypatch.setattr(ticket.Desk, "own_authority", lambda _: "ours")
    with pytest.raises(EOFError) as ended:
        ticket.main()
    assert ended.value.args[0]["changed"]
    assert [line.split()[-1] for line in found.ran if "token delete" in line] == ["aaaaaa"]
    made = [number for number, line in enumerate(found.ran) if "certificate approve" in line]
    deleted = next(number for number, line in enumerate(found.ran) if "token delete" in line)
    assert all(number > deleted for number in made)
    assert len(made) == (not trusted)


def test_a_host_that_is_in_the_cluster_and_left_no_token_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for listed in ('{"items": []}', json.dumps({"items": LEFT["items"][1:]})):
        found = Programs({"get secrets": listed}, node="gpu-1")
        assert ticket.Desk(found).left() == []
    monkeypatch.setattr(found, "run_command", lambda *_, **__: (1, "", "connection refused"))
    assert ticket.Desk(found).left() == []


def test_no_control_plane_at_a_closed_port_is_taken_for_one_that_is_ready() -> None:
    assert not member.ready("127.0.0.1")
