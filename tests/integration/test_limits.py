"""appliance-limits against a real API server and its controllers: the rights suffice, and everything beyond is refused.

There are no kubelets: the test itself says that pods run, and since when. Prometheus is the test's own.
"""

import json
import os
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest
import yaml  # noqa: TID251 - the definitions are data of the test

from appliance.actions.kubernetes import queues as action
from appliance.actions.sites.opening import Target
from appliance.adapters.kubernetes import KubernetesApi, Ref
from appliance.lab import charts
from appliance.limits import pods, token
from appliance.limits.api import METADATA, Api
from appliance.limits.keeper import Keeper
from appliance.limits.lease import Lease
from appliance.limits.owners import FEW, Owners
from appliance.limits.trouble import Trouble
from appliance.stages.queues import changes
from tests.integration.api_server import compiled, controlled, established, running, until
from tests.support.impossible_queues import BASE, furnish

pytestmark = pytest.mark.rack

SPACE = "kai-team"
SITE = """
scheduler:
  projects:
    - name: team
      queues:
        - {name: build, work: build, gpu: {quota: 4}, time_limit: 1m}
        - {name: train, gpu: {quota: 4}, idle_limit: 1m}
        - {name: free, gpu: {quota: 0}}
"""
NOTICE_S = 6.5
"""A tenth of a minute, and a little."""


class Place(NamedTuple):
    """An administrator's way in, and the program's own kubeconfig."""

    admin: Api
    kubeconfig: Path


CONTROLLERS = "job,deployment,replicaset,statefulset,resourcequota"
"""What makes pods of Jobs, Deployments and StatefulSets, and counts quotas."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("limits")
    with (
        running(compiled(), folder) as kubeconfig,
        controlled(compiled(), kubeconfig, folder, CONTROLLERS),
    ):
        with KubernetesApi(kubeconfig) as api:
            until(lambda: api.get(Ref("v1", "Namespace", "default")) is not None)
            for definition in yaml.safe_load_all((charts.SOURCES / "kai.yml").read_text()):
                api.apply(definition)
                until(partial(established, api, Ref.of(definition)))
            for host in ("gpu-1", "gpu-2", "gpu-3", "gpu-4"):
                api.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": host}})
            furnish(folder)
            (folder / "site.yml").write_text(BASE + SITE)
            loaded, wanted = action.describe(Target(folder))
            changes.apply(changes.plan(loaded.site, wanted, api), wanted, api, lambda _: None)
        own = folder / "own"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{compiled()}:{os.environ['PATH']}")
            assert token.renew(str(own), str(kubeconfig)) == "made anew"
            assert token.renew(str(own), str(kubeconfig)) == "good for hours yet"
        yield Place(Api(str(_with_authority(kubeconfig, folder))), own)


def test_work_over_its_time_ends_and_stays_ended(place: Place) -> None:
    admin = place.admin
    template = _template("team-build")
    _make(admin, "batch/v1", "jobs", "Job", "late-job", {"template": template})
    selector = {"matchLabels": {"app": "x"}, "replicas": 1}
    spec = {"replicas": 1, "selector": {"matchLabels": selector["matchLabels"]}}
    _make(
        admin,
        "apps/v1",
        "deployments",
        "Deployment",
        "late-web",
        {**spec, "template": _always(template)},
    )
    stateful = {**spec, "serviceName": "x", "template": _always(template)}
    _make(admin, "apps/v1", "statefulsets", "StatefulSet", "late-notebook", stateful)
    _make(admin, "v1", "pods", "Pod", "late-pod", template["spec"], template["metadata"]["labels"])
    _make(admin, "batch/v1", "jobs", "Job", "free-job", {"template": _template("team-free")})
    until(lambda: len(_pods(admin)) == 5)
    for pod in _pods(admin):
        _runs(admin, pod, hours=9)
    keeper = Keeper(Lease("head"), "http://127.0.0.1:9")
    seen = keeper.round(Api(str(place.kubeconfig)))
    assert (seen["leader"], seen["pods"], seen["limited"]) == (True, 5, 4)
    assert len(_pods(admin)) == 5
    assert {e["reason"] for e in _events(admin)} == {"LimitNear"}
    time.sleep(NOTICE_S)
    keeper.round(Api(str(place.kubeconfig)))
    until(lambda: _failed(admin, "late-job") == "DeadlineExceeded")
    until(lambda: [_owner(pod) for pod in _pods(admin)] == ["free-job"])
    assert _get(admin, "apps/v1", "deployments", "late-web")["spec"]["replicas"] == 0
    assert _get(admin, "apps/v1", "statefulsets", "late-notebook")["spec"]["replicas"] == 0
    assert keeper.totals["time"] == 4
    time.sleep(2 * NOTICE_S)
    assert keeper.round(Api(str(place.kubeconfig)))["limited"] == 0
    assert [_owner(pod) for pod in _pods(admin)] == ["free-job"]


def test_idle_work_ends_when_prometheus_says_so_and_not_before(place: Place) -> None:
    admin = place.admin
    for name in ("idle", "busy", "unknown"):
        template = _template("team-train", gpus=1)
        _make(admin, "v1", "pods", "Pod", name, template["spec"], template["metadata"]["labels"])
        _runs(admin, _get(admin, "v1", "pods", name), hours=1)
    with _prometheus({"idle": 0, "busy": 70}) as url:
        keeper = Keeper(Lease("head"), url)
        seen = keeper.round(Api(str(place.kubeconfig)))
        assert (seen["metrics"], seen["unknown"]["idle"]) == ("ok", 1)
        time.sleep(NOTICE_S)
        keeper.round(Api(str(place.kubeconfig)))
    until(lambda: admin.get(f"/api/v1/namespaces/{SPACE}/pods/idle") is None)
    assert keeper.totals == {"time": 0, "idle": 1}
    assert {"busy", "unknown"} <= {pod["metadata"]["name"] for pod in _pods(admin)}


def test_nobody_gives_a_pod_an_owner_by_hand(place: Place) -> None:
    """What limits make of such owners where policies only warn: tests/unit/limits/test_keeper.py."""
    admin, template = place.admin, _template("team-build")
    labels = template["metadata"]["labels"]
    _make(admin, "v1", "pods", "Pod", "forged", template["spec"], labels)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "late/log", "uid": "1", "controller": True}
    with pytest.raises(Trouble, match="appliance-marks"):
        admin.patch(_path("v1", "pods", "forged"), {"metadata": {"ownerReferences": [owner]}})
    forged = _get(admin, "v1", "pods", "forged")
    admin.delete(_path("v1", "pods", "forged"), forged["metadata"]["uid"], 0)


def test_owners_that_are_many_are_read_by_the_lists_it_may_read(place: Place) -> None:
    """In other namespaces, too: what is nobody's project is listed and left."""
    admin = place.admin
    for number in range(FEW + 5):
        _make(
            admin, "batch/v1", "jobs", "Job", f"many-{number}", {"template": _template("team-free")}
        )
    until(lambda: sum(_owner(pod).startswith("many-") for pod in _pods(admin)) == FEW + 5)
    owners = Owners()
    own = Api(str(place.kubeconfig))
    wanted = [pod for one in _pods(admin) if (pod := pods.pod(one)) and pod.owner]
    owners.learn(own, [pod.owner for pod in wanted if pod.owner])
    known = {owner.name for owner in owners._known}
    assert {f"many-{number}" for number in range(FEW + 5)} <= known
    assert {"kube-system", SPACE} <= {
        one["metadata"]["name"] for one in own.items("/api/v1/namespaces", accept=METADATA)
    }


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"/api/v1/namespaces/{SPACE}/secrets"),
        ("GET", f"/api/v1/namespaces/{SPACE}/configmaps"),
        ("GET", f"/api/v1/namespaces/{SPACE}"),
        ("GET", f"/api/v1/namespaces/{SPACE}/pods/x/log"),
        ("POST", f"/api/v1/namespaces/{SPACE}/pods"),
        ("POST", f"/api/v1/namespaces/{SPACE}/pods/x/exec"),
        ("PATCH", f"/api/v1/namespaces/{SPACE}/pods/x"),
        ("PATCH", f"/api/v1/namespaces/{SPACE}"),
        ("DELETE", f"/api/v1/namespaces/{SPACE}"),
        ("PATCH", f"/apis/apps/v1/namespaces/{SPACE}/deployments/late-web"),
        ("DELETE", f"/apis/apps/v1/namespaces/{SPACE}/deployments/late-web"),
        ("DELETE", f"/apis/batch/v1/namespaces/{SPACE}/jobs/late-job"),
        ("GET", f"/apis/batch/v1/namespaces/{SPACE}/cronjobs"),
        ("GET", "/api/v1/pods?watch=true"),
        ("GET", "/api/v1/namespaces?watch=true"),
        ("GET", "/apis/batch/v1/jobs?watch=true"),
        ("GET", "/api/v1/namespaces/default"),
        ("GET", "/api/v1/namespaces/default/pods/x"),
        ("GET", "/api/v1/namespaces/default/pods/x/log"),
        ("GET", "/apis/batch/v1/namespaces/default/jobs/x"),
        ("GET", "/apis/apps/v1/namespaces/kube-system/deployments/x"),
        ("DELETE", "/api/v1/namespaces/default/pods/x"),
        ("DELETE", "/api/v1/namespaces/kube-system/pods/x"),
        ("PATCH", "/apis/batch/v1/namespaces/default/jobs/x"),
        ("PATCH", "/apis/apps/v1/namespaces/kube-system/deployments/x/scale"),
        ("POST", "/api/v1/namespaces/default/events"),
        ("GET", "/api/v1/secrets"),
        ("GET", "/api/v1/configmaps"),
        ("GET", "/api/v1/serviceaccounts"),
        ("GET", "/apis/apps/v1/daemonsets"),
        ("GET", "/apis/batch/v1/cronjobs"),
        ("GET", "/api/v1/namespaces/kube-system/secrets"),
        ("GET", "/api/v1/nodes"),
        ("PATCH", f"/api/v1/namespaces/appliance-limits/configmaps/{SPACE}"),
        ("POST", "/api/v1/namespaces/appliance-limits/pods"),
        ("GET", "/api/v1/namespaces/appliance-limits/secrets"),
        ("POST", "/api/v1/namespaces/appliance-limits/serviceaccounts/appliance-limits/token"),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/appliance-limits/leases/other"),
        (
            "DELETE",
            "/apis/coordination.k8s.io/v1/namespaces/appliance-limits/leases/appliance-limits",
        ),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"),
        ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
        ("GET", "/apis/scheduling.run.ai/v2/queues"),
    ],
)
def test_everything_beyond_is_refused(place: Place, method: str, path: str) -> None:
    own = Api(str(place.kubeconfig))
    tries: dict[str, Callable[[], object]] = {
        "GET": lambda: own.get(path),
        "POST": lambda: own.create(path, {}),
        "PATCH": lambda: own.patch(path, {"metadata": {"labels": {"x": "y"}}}),
        "DELETE": lambda: own.delete(path, "some-uid", 0),
    }
    with pytest.raises(Trouble, match=r"forbidden.*HTTP 403"):
        tries[method]()


def test_every_kind_of_the_quota_is_known_and_counted(place: Place) -> None:
    """But for groups of pods, which this server does not know."""

    def uncounted() -> set[str]:
        status = _get(place.admin, "v1", "resourcequotas", "appliance").get("status", {})
        return set(status.get("hard", {"none": ""})) - set(status.get("used", {}))

    until(lambda: uncounted() <= {"count/podgroups.scheduling.run.ai"})


def _template(queue: str, gpus: int = 0) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    container = {"name": "a", "image": "none", "resources": resources}
    labels = {"app": "x", "kai.scheduler/queue": queue}
    spec = {"containers": [container], "restartPolicy": "Never", "schedulerName": "kai-scheduler"}
    return {"metadata": {"labels": labels}, "spec": spec}


def _always(template: dict[str, Any]) -> dict[str, Any]:
    return {**template, "spec": {**template["spec"], "restartPolicy": "Always"}}


def _path(version: str, plural: str, name: str = "") -> str:
    base = "/apis/" if "/" in version else "/api/"
    return f"{base}{version}/namespaces/{SPACE}/{plural}" + (f"/{name}" if name else "")


def _make(
    admin: Api,
    version: str,
    plural: str,
    kind: str,
    name: str,
    spec: dict[str, Any],
    labels: Any = None,
) -> None:
    meta = {"name": name, "labels": labels or {}}
    admin.create(
        _path(version, plural),
        {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec},
    )


def _get(admin: Api, version: str, plural: str, name: str) -> dict[str, Any]:
    found = admin.get(_path(version, plural, name))
    assert found is not None
    return found


def _pods(admin: Api) -> list[dict[str, Any]]:
    return list(admin.items(_path("v1", "pods")))


def _events(admin: Api) -> list[dict[str, Any]]:
    return [
        e
        for e in admin.items(_path("v1", "events"))
        if e["source"].get("component") == "appliance-limits"
    ]


def _owner(pod: dict[str, Any]) -> str:
    return str(
        pod["metadata"].get("ownerReferences", [{"name": pod["metadata"]["name"]}])[0]["name"]
    )


def _runs(admin: Api, pod: dict[str, Any], hours: float) -> None:
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - hours * 3600))
    path = _path("v1", "pods", pod["metadata"]["name"])
    admin.patch(f"{path}/status", {"status": {"phase": "Running", "startTime": since}})


def _failed(admin: Api, job: str) -> str:
    conditions = _get(admin, "batch/v1", "jobs", job).get("status", {}).get("conditions", [])
    return next((str(c["reason"]) for c in conditions if c["type"] == "Failed"), "")


def _with_authority(kubeconfig: Path, folder: Path) -> Path:
    """The administrator's kubeconfig in the form the program's own client reads."""
    document = json.loads(kubeconfig.read_text())
    cluster = document["clusters"][0]["cluster"]
    authority = Path(cluster.pop("certificate-authority")).read_bytes()
    cluster["certificate-authority-data"] = b64encode(authority).decode()
    file = folder / "admin"
    file.touch(mode=0o600)
    file.write_text(json.dumps(document))
    return file


@contextmanager
def _prometheus(use: dict[str, float]) -> Iterator[str]:
    """A server that knows the use of these pods' GPUs."""

    class Answers(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

        def do_GET(self) -> None:
            values = [[time.time() // 1, "0"]]
            result = [
                {
                    "metric": {"namespace": SPACE, "pod": pod, "UUID": f"GPU-{pod}"},
                    "values": [[values[0][0], str(value)]],
                }
                for pod, value in use.items()
                if "GPU_UTIL" in self.path
            ]
            body = json.dumps({"status": "success", "data": {"result": result}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
