"""appliance.host.helm_release on a pretended host: what it compares, what it tells Helm, and how it recovers."""

import hashlib
import json
import stat
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Run = Callable[..., dict[str, Any]]
Plugin = Callable[[str], ModuleType]
GIVEN: dict[str, Any] = {
    "name": "kai-scheduler",
    "namespace": "kai",
    "chart": "oci://registry.example.com/kai-scheduler",
    "version": "v0.17.0",
    "values": {"global": {"password": "hidden-word"}},
    "timeout": 60,
}
VIEW = "kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 60s config view"
GET = "kubectl --request-timeout 60s get"
CONTEXT = {"cluster": "kubernetes", "user": "kubernetes-admin"}
CONFIGURED = "Error: UPGRADE FAILED: context deadline exceeded"


def revision(number: int, status: str, version: str = "v0.17.0", updated: str = "") -> Any:
    """A revision of the release; ``updated``: this moment."""
    updated = updated or datetime.now(UTC).isoformat()
    chart = f"kai-scheduler-{version}"
    return {"revision": number, "status": status, "chart": chart, "updated": updated}


def history(*revisions: Any) -> tuple[int, str, str]:
    return (0, json.dumps(list(revisions)), "")


NONE = (1, "", "Error: release: not found")


@pytest.fixture(autouse=True)
def places(plugin: Plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin("module_utils.helm_archive"), "PROGRAM", "helm")
    resource = plugin("module_utils.resources.helm_release")
    monkeypatch.setattr(resource, "has_cluster", lambda _: True)
    module = plugin("module_utils.helm")
    monkeypatch.setattr(module, "LOCKS", str(tmp_path / "lock"))
    monkeypatch.setattr(module, "STATE", str(tmp_path / "state"))
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)


@pytest.fixture
def cluster(host: Any) -> Any:
    """Helm 4 and a release that is as asked."""
    host.answer("helm version", (0, "v4.3.0+g1", ""))
    host.answer("helm history", history(revision(1, "deployed")))
    host.answer("helm get values", (0, json.dumps(GIVEN["values"]), ""))
    host.answer("helm get manifest", (0, "kind: ConfigMap\n", ""))
    host.answer("kubectl", (0, "", ""))
    host.answer(VIEW, (0, json.dumps({"contexts": [{"context": CONTEXT}]}), ""))
    host.answer("helm upgrade", (0, "", ""))
    host.answer("helm uninstall", (0, "", ""))
    return host


def test_no_user_can_reach_the_lock_of_a_release(run: Run, cluster: Any, tmp_path: Path) -> None:
    """Whoever may open a file can hold its lock, and /run/lock is open to all."""
    locks = tmp_path / "lock"
    run("helm_release", **GIVEN)
    assert stat.S_IMODE(locks.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in locks.iterdir()} == {0o600}


def test_what_is_as_asked_is_left_alone(run: Run, cluster: Any) -> None:
    answer = run("helm_release", **GIVEN)
    assert (answer["changed"], answer["differences"], answer["revision"]) == (False, [], 1)
    assert cluster.called("helm upgrade") == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("helm history", NONE, "not installed"),
        ("helm history", history(revision(1, "failed")), "revision 1 is failed"),
        (
            "helm history",
            history(revision(1, "deployed", "v0.16.8")),
            "chart kai-scheduler-v0.16.8, not kai-scheduler-v0.17.0",
        ),
        ("helm get values", (0, "null", ""), "value global"),
        ("helm get values", (0, '{"global": {"password": "old"}}', ""), "value global.password"),
        (
            GET,
            (1, "", 'Error from server (NotFound): configmaps "a" not found'),
            "configmaps a is gone",
        ),
    ],
)
def test_what_differs_is_told_without_its_value_and_brought(
    run: Run, cluster: Any, before: str, after: Any, said: str
) -> None:
    cluster.answer(before, after)
    checked = run("helm_release", check=True, diff=True, **GIVEN)
    assert (checked["changed"], checked["differences"]) == (True, [said])
    assert cluster.called("helm upgrade") == []
    assert "hidden-word" not in json.dumps({**checked, "invocation": None})
    assert checked["diff"]["before"] == f"{said}\n"
    assert run("helm_release", **GIVEN)["changed"]
    assert len(cluster.called("helm upgrade")) == 1


def test_objects_of_another_namespace_are_looked_at_in_theirs(
    run: Run, cluster: Any, tmp_path: Path
) -> None:
    """kubectl refuses them where its option names one (seen with KAI's chart)."""
    run("helm_release", **GIVEN)
    (asked,) = cluster.called(GET)
    assert "--namespace" not in asked
    written = json.loads((tmp_path / "state/kai.context").read_text())
    (context,) = written["contexts"]
    assert context["context"] == {**CONTEXT, "namespace": "kai"}
    assert context["name"] == written["current-context"]


@pytest.mark.parametrize("said", [(1, "", "no such file"), (0, "[]", ""), (0, "x", "")])
def test_a_kubeconfig_without_a_context_is_named(
    run: Run, cluster: Any, said: tuple[int, str, str]
) -> None:
    cluster.answer(VIEW, said)
    answer = run("helm_release", **GIVEN)
    assert answer["msg"].startswith("/etc/kubernetes/admin.conf cannot be read: ")


def test_a_chart_may_leave_out_the_v_of_its_version(run: Run, cluster: Any) -> None:
    cluster.answer("helm history", history(revision(1, "deployed", "0.17.0")))
    assert not run("helm_release", **GIVEN)["changed"]


@pytest.mark.parametrize(
    ("version", "flags"),
    [
        ("v3.14.2+g1", "--wait --atomic"),
        ("v4.3.0", "--wait=legacy --rollback-on-failure --server-side=false"),
    ],
)
def test_flags_are_those_of_helms_release(run: Run, cluster: Any, version: str, flags: str) -> None:
    cluster.answer("helm version", (0, version, ""))
    cluster.answer("helm history", NONE)
    run("helm_release", repository="https://charts.example.com", **GIVEN)
    (command,) = cluster.called("helm upgrade")
    assert flags in command
    assert command.startswith(f"helm upgrade kai-scheduler {GIVEN['chart']} --install")
    assert "--version v0.17.0" in command
    assert "--repo https://charts.example.com" in command
    assert "hidden-word" not in command


@pytest.mark.parametrize("version", ["v3.14.2+g1", "v4.3.0"])
def test_a_release_that_is_not_waited_for_is_installed_and_left(
    run: Run, cluster: Any, version: str
) -> None:
    cluster.answer("helm version", (0, version, ""))
    cluster.answer("helm history", NONE)
    assert run("helm_release", waits=False, **GIVEN)["changed"]
    (command,) = cluster.called("helm upgrade")
    assert "--wait" not in command
    assert "--atomic" not in command
    assert "--rollback" not in command
    assert ("--server-side=false" in command) is version.startswith("v4")


def test_values_are_told_by_standard_input_and_written_nowhere(
    run: Run, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ansible.module_utils.basic import AnsibleModule

    told: list[str] = []

    def watched(_: Any, argv: list[str], **rest: Any) -> Any:
        if "upgrade" in argv:
            assert argv[argv.index("--values") + 1] == "-"
            told.append(rest["data"])
            files = [file for file in tmp_path.rglob("*") if file.is_file()]
            assert not [file for file in files if "hidden-word" in file.read_text()]
        return cluster(_, argv, **rest)

    monkeypatch.setattr(AnsibleModule, "run_command", watched)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    cluster.answer("helm history", NONE)
    run("helm_release", **GIVEN)
    assert [json.loads(text) for text in told] == [GIVEN["values"]]


def test_values_are_not_among_the_arguments_in_the_hosts_journal(
    run: Run, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ansible.module_utils.basic import AnsibleModule

    lines: list[str] = []
    monkeypatch.setattr(AnsibleModule, "log", lambda _, text, **__: lines.append(str(text)))
    cluster.answer("helm history", NONE)
    run("helm_release", **GIVEN)
    assert "hidden-word" not in "".join(lines)


def test_a_chart_that_a_killed_run_fetched_is_neither_used_nor_left(
    run: Run, cluster: Any, plugin: Plugin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from ansible.module_utils.basic import AnsibleModule

    left = Path(plugin("module_utils.helm").STATE, "fetched", "kai.kai-scheduler")
    left.mkdir(parents=True)
    (left / "kai-scheduler-v0.16.8.tgz").write_text("of a killed run")
    archive = b"the chart"

    def fetching(_: Any, argv: list[str], **rest: Any) -> Any:
        if "pull" in argv:
            folder = Path(argv[argv.index("--destination") + 1])
            assert (folder, list(folder.iterdir())) == (left, [])
            (folder / "kai-scheduler-v0.17.0.tgz").write_bytes(archive)
            return 0, "", ""
        return cluster(_, argv, **rest)

    monkeypatch.setattr(AnsibleModule, "run_command", fetching)
    cluster.answer("helm history", NONE)
    run("helm_release", sha256=hashlib.sha256(archive).hexdigest(), **GIVEN)
    (command,) = cluster.called("helm upgrade")
    assert f" {left}/kai-scheduler-v0.17.0.tgz " in command
    assert not left.exists()


@pytest.mark.parametrize("said", ["v3.13.9", "version.BuildInfo{}"])
def test_another_helm_is_refused_in_one_line(run: Run, cluster: Any, said: str) -> None:
    cluster.answer("helm version", (0, said, ""))
    message = run("helm_release", **GIVEN)["msg"]
    assert "3.14 or newer" in message
    assert "\n" not in message


def test_a_host_without_helm_says_what_to_do(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible.module_utils.basic import AnsibleModule

    def nothing(*_: Any, **__: Any) -> Any:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(AnsibleModule, "run_command", nothing)
    assert run("helm_release", **GIVEN)["msg"] == (
        "helm does not run (No such file or directory): appliance deploy --stage kubernetes brings "
        "Helm 3.14 or newer; an offline source has it in bin/helm"
    )


@pytest.mark.parametrize(
    ("after", "back"),
    [
        (history(revision(1, "superseded", "v0.16.8"), revision(3, "deployed", "v0.16.8")), "kai-scheduler-v0.16.8 is back"),
        (NONE, "nothing of it is left"),
        (history(revision(2, "failed")), "revision 2 is failed"),
    ],
)  # fmt: skip
def test_a_failure_says_what_is_there_now_and_why(
    run: Run, cluster: Any, after: Any, back: str
) -> None:
    old = history(revision(1, "deployed", "v0.16.8"))
    cluster.answer("helm history", old, old, after)
    cluster.answer("helm upgrade", (1, "", f"warning: x\n{CONFIGURED}\n"))
    message = run("helm_release", **GIVEN)["msg"]
    assert message == (
        f"kai-scheduler-v0.17.0 was not installed, {back}: context deadline exceeded"
    )


def old_stamp() -> str:
    return datetime.fromtimestamp(time.time() - 3600, UTC).isoformat()


def test_a_first_installation_that_was_cut_off_is_begun_anew(run: Run, cluster: Any) -> None:
    cut = history(revision(1, "pending-install", updated=old_stamp()))
    cluster.answer("helm history", cut, NONE, history(revision(1, "deployed")))
    assert run("helm_release", **GIVEN)["differences"] == ["revision 1 is pending-install"]
    names = [call.split()[1] for call in cluster.calls if call.startswith("helm ")]
    assert names.index("uninstall") < names.index("upgrade")


def test_an_upgrade_that_was_cut_off_loses_its_record_and_is_made_again(
    run: Run, cluster: Any
) -> None:
    cut = (revision(4, "deployed", "v0.16.8"), revision(5, "pending-upgrade", updated=old_stamp()))
    cluster.answer("helm history", history(*cut))
    assert run("helm_release", **GIVEN)["changed"]
    (deleted,) = cluster.called("kubectl")
    assert "delete secret sh.helm.release.v1.kai-scheduler.v5" in deleted
    assert cluster.called("helm uninstall") == []
    assert len(cluster.called("helm upgrade")) == 1


def test_somebody_else_who_is_at_work_is_waited_for(run: Run, cluster: Any) -> None:
    busy = history(revision(1, "deployed", "v0.16.8"), revision(2, "pending-upgrade"))
    cluster.answer("helm history", busy, busy, history(revision(2, "deployed")))
    assert not run("helm_release", **GIVEN)["changed"]
    assert len(cluster.called("helm history")) == 3
    assert cluster.called("kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 60s delete") == []  # fmt: skip


def test_our_own_run_that_was_killed_is_not_waited_for(
    run: Run, cluster: Any, tmp_path: Path
) -> None:
    (tmp_path / "lock").mkdir()
    (tmp_path / "lock/appliance-helm.kai.kai-scheduler").write_text("2\n")
    cluster.answer("helm history", history(revision(1, "deployed"), revision(2, "pending-upgrade")))
    assert run("helm_release", **GIVEN)["differences"] == ["revision 2 is pending-upgrade"]


def source(folder: Path) -> Path:
    """An offline source with Helm and the chart."""
    for name in ("bin/helm", "charts/kai-scheduler-v0.17.0.tgz"):
        file = folder / name
        file.parent.mkdir(parents=True)
        file.write_text(name)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        Path(f"{file}.sha256").write_text(f"{digest}  {file.name}\n")
    return folder


def test_an_offline_source_is_used_once_its_digests_are_right(
    run: Run, host: Any, tmp_path: Path
) -> None:
    place = source(tmp_path / "source")
    host.answer(f"{place}/bin/helm version", (0, "v4.3.0", ""))
    host.answer(f"{place}/bin/helm history", NONE)
    host.answer(f"{place}/bin/helm upgrade", (0, "", ""))
    given = {**GIVEN, "repository": "https://charts.example.com"}
    assert run("helm_release", source=str(place), **given)["changed"]
    (command,) = host.called(f"{place}/bin/helm upgrade")
    assert f"{place}/charts/kai-scheduler-v0.17.0.tgz" in command
    assert "--repo" not in command, "Helm would fetch the chart from there"


def test_a_digest_in_capitals_is_one(run: Run, host: Any, tmp_path: Path) -> None:
    place = source(tmp_path / "source")
    for beside in place.rglob("*.sha256"):
        digest, name = beside.read_text().split()
        beside.write_text(f"{digest.upper()} *{name}\r\n")
    host.answer(f"{place}/bin/helm version", (0, "v4.3.0", ""))
    host.answer(f"{place}/bin/helm history", NONE)
    host.answer(f"{place}/bin/helm upgrade", (0, "", ""))
    assert run("helm_release", source=str(place), **GIVEN)["changed"]


@pytest.mark.parametrize("name", ["bin/helm", "charts/kai-scheduler-v0.17.0.tgz"])
@pytest.mark.parametrize("what", ["other", "missing", "without digest", "binary", "empty"])
def test_what_is_not_as_its_digest_says_is_not_used(
    run: Run, host: Any, tmp_path: Path, name: str, what: str
) -> None:
    place = source(tmp_path / "source")
    if what == "other":
        (place / name).write_text("another")
    elif what in ("binary", "empty"):
        (place / f"{name}.sha256").write_bytes(b"\xff\xfe\0" * 9 if what == "binary" else b"")
    else:
        (place / (name if what == "missing" else f"{name}.sha256")).unlink()
    message = run("helm_release", source=str(place), **GIVEN)["msg"]
    assert str(place / name) in message
    assert host.calls == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-22T03:34:28.636158696Z", 1795318468),
        ("2026-11-22T05:34:28.6+02:00", 1795318468),
        ("2026-11-22 03:34:28.6 +0000 UTC", 1795318468),
        ("yesterday", 0),
    ],
)
def test_helms_times_are_read(plugin: Plugin, text: str, seconds: int) -> None:
    assert plugin("module_utils.helm").stamp(text) == seconds


def removal(**given: Any) -> dict[str, Any]:
    """Arguments that take the release away."""
    return {**GIVEN, "state": "absent", **given}


def test_a_release_is_taken_away_once(run: Run, cluster: Any) -> None:
    assert run("helm_release", check=True, **removal())["changed"]
    assert cluster.called("helm uninstall") == []
    assert run("helm_release", **removal())["differences"] == ["installed"]
    assert len(cluster.called("helm uninstall")) == 1
    cluster.answer("helm history", NONE)
    assert not run("helm_release", **removal())["changed"]
    assert len(cluster.called("helm uninstall")) == 1


@pytest.mark.parametrize(
    ("listed", "goes"),
    [("namespace/kai\nnamespace/other\n", True), ("namespace/kai-2\n", False), ("", False)],
)
def test_a_release_in_a_namespace_without_the_mark_stays(
    run: Run, cluster: Any, listed: str, *, goes: bool
) -> None:
    known = "kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 20s"
    cluster.answer(f"{known} get namespaces --selector a=b", (0, listed, ""))
    assert run("helm_release", **removal(marked="a=b"))["changed"] is goes
    assert bool(cluster.called("helm uninstall")) is goes


def test_nothing_is_taken_away_where_nobody_knows_whose_it_is(run: Run, cluster: Any) -> None:
    cluster.answer("kubectl", (1, "", "Unable to connect to the server"))
    message = run("helm_release", **removal(marked="a=b"))["msg"]
    assert message == "namespaces cannot be listed: Unable to connect to the server"
    assert cluster.called("helm uninstall") == []


@pytest.mark.parametrize(("state", "changes"), [("present", True), ("absent", False)])
def test_a_dry_run_on_a_host_of_no_cluster_knows_that_nothing_is_installed(
    run: Run, host: Any, tmp_path: Path, plugin: Plugin, monkeypatch: pytest.MonkeyPatch, state: str, *, changes: bool
) -> None:  # fmt: skip
    monkeypatch.undo()
    given = {**GIVEN, "state": state, "kubeconfig": str(tmp_path / "none"), "source": "/none"}
    answer = run("helm_release", check=True, **given)
    assert (answer["changed"], host.calls) == (changes, [])
    assert run("helm_release", **given)["failed"]


@pytest.mark.parametrize(
    ("given", "listed", "named"),
    [
        ({"holders": ["rayjobs.ray.io"]}, "kai-team/a\nkai-team/b\n", "kai-team/a, kai-team/b"),
        ({"holders": ["x"]}, "n/a\nn/b\nn/c\nn/d\n", "n/a, n/b, n/c and 1 more"),
        ({"driver": "nfs"}, "nfs pv-1\nother pv-2\n pv-3\n", "volume pv-1"),
    ],
)
def test_what_people_still_need_is_not_taken_away(
    run: Run, cluster: Any, given: dict[str, Any], listed: str, named: str
) -> None:
    cluster.answer("kubectl", (0, listed, ""))
    assert run("helm_release", **removal(**given))["msg"] == (
        f"kai-scheduler is still needed by {named}: delete them first, or leave kai-scheduler in the site"
    )
    assert cluster.called("helm uninstall") == []


def test_kinds_the_cluster_does_not_know_hold_nothing_and_a_silent_api_is_no_answer(
    run: Run, cluster: Any
) -> None:
    cluster.answer("kubectl", (1, "", 'error: the server doesn\'t have a resource type "x"'))
    assert run("helm_release", **removal(holders=["x"]))["changed"]
    cluster.answer("kubectl", (1, "", "Unable to connect to the server"))
    message = run("helm_release", **removal(holders=["x"]))["msg"]
    assert message == "x cannot be listed: Unable to connect to the server"
    assert len(cluster.called("helm uninstall")) == 1


def test_an_archive_of_the_source_must_be_the_one_pinned(
    run: Run, host: Any, tmp_path: Path
) -> None:
    place = source(tmp_path / "source")
    message = run("helm_release", source=str(place), sha256="0" * 64, **GIVEN)["msg"]
    assert "is another archive than the one pinned: its sha256 is " in message
    assert host.calls == []


def test_a_chart_with_a_pinned_digest_is_fetched_and_compared_first(
    run: Run, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ansible.module_utils.basic import AnsibleModule

    def pulling(_: Any, argv: list[str], **rest: Any) -> Any:
        if argv[1] == "pull":
            folder = Path(argv[argv.index("--destination") + 1])
            (folder / "kai-scheduler-v0.17.0.tgz").write_text("archive")
        return cluster(_, argv, **rest)

    monkeypatch.setattr(AnsibleModule, "run_command", pulling)
    cluster.answer("helm pull", (0, "", ""))
    cluster.answer("helm history", NONE)
    given = {**GIVEN, "repository": "https://charts.example.com"}
    said = run("helm_release", sha256="0" * 64, **given)["msg"]
    assert said.startswith("kai-scheduler-v0.17.0 is another archive than the one pinned")
    assert cluster.called("helm upgrade") == []
    right = hashlib.sha256(b"archive").hexdigest()
    assert run("helm_release", sha256=right, **given)["changed"]
    assert "--repo https://charts.example.com" in cluster.called("helm pull")[-1]
    (command,) = cluster.called("helm upgrade")
    assert "--repo" not in command
    assert "kai-scheduler-v0.17.0.tgz" in command


PODS = [
    {
        "kind": "Pod",
        "metadata": {"name": "waits"},
        "status": {
            "phase": "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "message": "no node has 10 cores"}
            ],
        },
    },
    {
        "kind": "Pod",
        "metadata": {"name": "pulls"},
        "status": {
            "containerStatuses": [
                {
                    "name": "api",
                    "state": {"waiting": {"reason": "ErrImagePull", "message": "401 from nvcr.io"}},
                }
            ]
        },
    },
    {
        "kind": "Pod",
        "metadata": {"name": "crashes"},
        "status": {
            "containerStatuses": [
                {
                    "name": "db",
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                    "lastState": {"terminated": {"message": "starting\nno space left"}},
                }
            ]
        },
    },
    {
        "kind": "Pod",
        "metadata": {"name": "starts"},
        "status": {
            "containerStatuses": [
                {"name": "a", "state": {"waiting": {"reason": "ContainerCreating"}}}
            ]
        },
    },
    {"kind": "Pod", "metadata": {"name": "ended"}, "status": {"phase": "Succeeded"}},
    {
        "kind": "Pod",
        "metadata": {"name": "hook"},
        "status": {
            "initContainerStatuses": [
                {"name": "check", "state": {"terminated": {"exitCode": 1, "message": "no CA"}}}
            ]
        },
    },
    {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {},
        "status": {"phase": "Pending"},
    },
    {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "log"},
        "spec": {"storageClassName": "nfs"},
        "status": {"phase": "Pending"},
    },
    {"kind": "PersistentVolumeClaim", "metadata": {"name": "good"}, "status": {"phase": "Bound"}},
]


def test_causes_are_named_claims_first(plugin: Plugin) -> None:
    assert plugin("module_utils.helm_causes").causes(PODS) == [
        "claim data is not bound: the cluster has no default StorageClass",
        "claim log is not bound: StorageClass nfs has not made its volume",
        "pod waits is not scheduled: no node has 10 cores",
        "pod pulls: container api: ErrImagePull: 401 from nvcr.io",
        "pod crashes: container db: CrashLoopBackOff: no space left",
        "pod hook: container check ended with 1: no CA",
    ]


@pytest.mark.parametrize("version", ["v3.14.2+g1", "v4.3.0"])
def test_a_release_that_is_not_rolled_back_is_left_with_its_causes(
    run: Run, cluster: Any, version: str
) -> None:
    cluster.answer("helm version", (0, version, ""))
    cluster.answer("helm history", NONE)
    cluster.answer("helm upgrade", (1, "", CONFIGURED))
    cluster.answer(
        "kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 60s get persistentvolumeclaims,pods",
        (0, json.dumps({"items": PODS}), ""),
    )
    answer = run("helm_release", rolls_back=False, **GIVEN)
    (command,) = cluster.called("helm upgrade")
    assert "--wait" in command
    assert "--atomic" not in command
    assert "--rollback" not in command
    assert "the cluster has no default StorageClass" in answer["msg"]
    assert answer["msg"].endswith("; and 3 more")


@pytest.mark.parametrize("said", [(1, "", "refused"), (0, "x", ""), (0, '{"items": [1]}', "")])
def test_without_causes_the_reason_is_helms(
    run: Run, cluster: Any, said: tuple[int, str, str]
) -> None:
    cluster.answer("helm history", NONE)
    cluster.answer("helm upgrade", (1, "", CONFIGURED))
    place = "kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 60s get persistent"
    cluster.answer(place, said)
    answer = run("helm_release", rolls_back=False, **GIVEN)
    assert answer["msg"].endswith("context deadline exceeded")


def test_jobs_of_an_earlier_attempt_go_first(run: Run, cluster: Any) -> None:
    cluster.answer("helm history", NONE)
    run("helm_release", jobs=["pre-install", "pre-delete"], **GIVEN)
    delete = "kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 60s delete jobs"
    (command,) = cluster.called(delete)
    assert command.endswith("pre-install pre-delete --ignore-not-found --namespace kai")


def test_a_login_is_told_by_standard_input_and_forgotten(
    run: Run, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ansible.module_utils.basic import AnsibleModule

    told: list[tuple[str, str | None]] = []

    def watched(_: Any, argv: list[str], **rest: Any) -> Any:
        told.append((" ".join(argv), rest.get("data")))
        return cluster(_, argv, **rest)

    monkeypatch.setattr(AnsibleModule, "run_command", watched)
    cluster.answer("helm history", NONE)
    cluster.answer("helm repo", (0, "", ""))
    given = {**GIVEN, "chart": "control-plane", "repository": "https://charts.example.com"}
    run("helm_release", login=["$oauthtoken", "hidden-key"], **given)
    lines = [line for line, _ in told if line.startswith(("helm repo", "helm upgrade"))]
    assert [line.split()[1:3] for line in lines] == [
        ["repo", "add"],
        ["upgrade", "kai-scheduler"],
        ["repo", "remove"],
    ]
    assert "upgrade kai-scheduler appliance-kai-scheduler/control-plane --install" in lines[1]
    assert "--repo" not in lines[1]
    assert not [line for line in lines if "hidden-key" in line]
    assert [data for line, data in told if "repo add" in line] == ["hidden-key"]


def test_a_refused_login_is_named_and_forgotten(run: Run, cluster: Any) -> None:
    cluster.answer("helm history", NONE)
    cluster.answer("helm repo", (1, "", "Error: looks like 401 Unauthorized"))
    given = {**GIVEN, "chart": "control-plane", "repository": "https://charts.example.com"}
    answer = run("helm_release", login=["user", "hidden-key"], **given)
    assert answer["msg"].startswith("https://charts.example.com does not accept the login")
    assert len(cluster.called("helm repo remove")) == 1
    assert cluster.called("helm upgrade") == []
