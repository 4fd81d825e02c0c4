"""Limits world, as several test modules use it."""

import json
import re
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import parse_qs, urlsplit

from appliance.limits.api import Api
from appliance.limits.keeper import Clocks, Keeper
from appliance.limits.lease import Lease

Resource = dict[str, Any]


Fault = Callable[["Handler"], None]


SPACE = "kai-lattice"


HOUR = 3600.0


PLURALS = frozenset(
    {
        "namespaces",
        "nodes",
        "configmaps",
        "pods",
        "jobs",
        "deployments",
        "replicasets",
        "statefulsets",
    }
)


class Server(ThreadingHTTPServer):
    """``store`` by path; ``faults`` by "METHOD word-in-path", used up in order; ``busy``: use of a pod's GPUs by slice."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.store: dict[str, Resource] = {}
        self.faults: deque[tuple[str, str, Fault]] = deque()
        self.seen: list[tuple[str, str, Any]] = []
        self.series: list[Resource] = []
        self.warnings: list[str] = []
        self.time = 0.0
        self.skew = 0.0
        self.version = 0
        self.opened = 0
        self.closing = Event()

    def verify_request(self, request: object, client_address: object) -> bool:
        """Counts connections."""
        del request, client_address
        self.opened += 1
        return True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def put(self, path: str, resource: Resource) -> None:
        self.version += 1
        resource["metadata"]["resourceVersion"] = str(self.version)
        self.store[path] = resource


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def date_time_string(self, timestamp: float | None = None) -> str:
        return formatdate(self.server.time + self.server.skew, usegmt=True)

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def answer(self, status: int, body: object, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        self.server.seen.append((self.command, parts.path, body))
        for fault in self.server.faults:
            method, word, act = fault
            if method == self.command and word in parts.path:
                self.server.faults.remove(fault)
                act(self)
                return
        if parts.path == "/api/v1/query_range":
            self._metrics(parse_qs(parts.query))
        else:
            getattr(self, f"_{self.command.lower()}")(parts.path, body)

    def _metrics(self, query: dict[str, list[str]]) -> None:
        end, step = float(query["end"][0]), float(query["step"][0])
        metric = query["query"][0].removeprefix("max_over_time(").partition("[")[0]
        count = round((end - float(query["start"][0])) / step) + 1
        found = [
            {
                "metric": series["labels"],
                "values": [
                    [end - back * step, str(series["use"](back * step))]
                    for back in range(count)
                    if series["use"](back * step) is not None
                ],
            }
            for series in self.server.series
            if series["metric"] == metric
        ]
        told: Resource = {"status": "success", "data": {"resultType": "matrix", "result": found}}
        if self.server.warnings:
            told["warnings"] = self.server.warnings
        self.answer(200, told)

    def _get(self, path: str, _: None) -> None:
        base, _slash, plural = path.rpartition("/")
        if path in self.server.store:
            self.answer(200, self.server.store[path])
        elif plural in PLURALS:
            everywhere = "/namespaces" not in path and plural != "nodes"
            folder = f"{base}/namespaces/[^/]+/{plural}" if everywhere else path
            query = parse_qs(urlsplit(self.path).query)
            label, _equals, value = query.get("labelSelector", [""])[0].partition("=")
            phases = [term for term in query.get("fieldSelector", [""])[0].split(",") if term]
            found = [
                self._asked_of(r)
                for where, r in self.server.store.items()
                if re.fullmatch(f"{folder}/[^/]+", where)
                and (not label or r["metadata"].get("labels", {}).get(label) == value)
                and all(_is_of(r["status"]["phase"], term) for term in phases)
            ]
            self.answer(200, {"items": found, "metadata": {}})
        else:
            self.answer(404, {"message": f"{path} not found"})

    def _asked_of(self, resource: Resource) -> Resource:
        """No more of it than was asked for."""
        less = "as=PartialObjectMetadataList" in self.headers["Accept"]
        return {"metadata": resource["metadata"]} if less else resource

    def _post(self, path: str, body: Resource) -> None:
        meta = body["metadata"]
        name = meta.get("name") or f"{meta['generateName']}{self.server.version}"
        if f"{path}/{name}" in self.server.store:
            self.answer(409, {"message": f"{name} already exists"})
            return
        self.server.put(f"{path}/{name}", body)
        self.answer(201, body)

    def _put(self, path: str, body: Resource) -> None:
        before = self.server.store[path]["metadata"]["resourceVersion"]
        if body["metadata"].get("resourceVersion") != before:
            self.answer(409, {"message": "the object has been modified"})
            return
        self.server.put(path, body)
        self.answer(200, body)

    def _patch(self, path: str, body: Resource) -> None:
        found = self.server.store.get(path.removesuffix("/scale"))
        if found is None:
            self.answer(404, {"message": "not found"})
            return
        found.setdefault("spec", {}).update(body.get("spec", {}))
        notes = body.get("metadata", {}).get("annotations", {})
        found["metadata"].setdefault("annotations", {}).update(notes)
        self.answer(200, found)

    def _delete(self, path: str, body: Resource) -> None:
        found = self.server.store.get(path)
        if found is None or found["metadata"]["uid"] != body["preconditions"]["uid"]:
            self.answer(409 if found else 404, {"message": "the UID is another"})
            return
        del self.server.store[path]
        self.answer(200, {})


def _is_of(phase: str, term: str) -> bool:
    """Whether a pod of that phase is meant by a term of a field selector."""
    _field, sign, wanted = re.split("(!?=)", term, maxsplit=1)
    return (phase == wanted) is (sign == "=")


class World:
    """``hours`` pass with a round every so often; ``said`` are the events, as (kind of thing, reason, message)."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.wall, self.steady = 1_790_000_000.0, 1000.0
        self.file = folder / "kubeconfig"
        self.file.touch(mode=0o600)
        user = {"name": "it", "user": {"token": "a-secret-token"}}
        cluster = {"name": "it", "cluster": {"server": server.url}}
        self.file.write_text(json.dumps({"clusters": [cluster], "users": [user]}))
        self.space(SPACE)
        self.queues(build={"timeLimit": "8h", "idleLimit": "30m"}, train={"idleLimit": "2h"})
        self.keeper = self.program("head")

    def program(self, name: str, *, dry_run: bool = False) -> Keeper:
        clocks = Clocks(lambda: self.wall, lambda: self.steady)
        return Keeper(Lease(name, clocks.steady), self.server.url, dry_run=dry_run, clocks=clocks)

    def space(self, name: str) -> None:
        """A namespace, of nobody in particular."""
        self.server.put(f"/api/v1/namespaces/{name}", {"metadata": {"name": name}})

    def queues(self, space: str = SPACE, **limits: dict[str, str]) -> None:
        data = {q: json.dumps({"queue": f"lattice-{q}", **given}) for q, given in limits.items()}
        path = f"/api/v1/namespaces/appliance-limits/configmaps/{space}"
        meta = {"name": space, "labels": {"appliance/limits": "true"}}
        self.server.put(path, {"metadata": meta, "data": data})

    def pod(
        self, name: str, *, age: float, queue: str = "lattice-build", gpus: int = 1, **more: Any
    ) -> str:
        """A pod that runs since ``age`` hours; ``owner`` as (apiVersion, kind, name)."""
        started = datetime.fromtimestamp(self.wall - age * HOUR, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        space = more.get("space", SPACE)
        meta: Resource = {
            "name": name,
            "namespace": space,
            "uid": f"uid-{name}",
            "labels": {"kai.scheduler/queue": queue} if queue else {},
            "annotations": more.get("annotations", {}),
        }
        if owner := more.get("owner"):
            meta["ownerReferences"] = [reference(*owner)]
        limits = {more.get("resource", "nvidia.com/gpu"): str(gpus)} if gpus else {}
        status = more.get("status", {"phase": "Running", "startTime": started})
        path = f"/api/v1/namespaces/{space}/pods/{name}"
        spec = {"containers": [{"resources": {"limits": limits}}], **more.get("spec", {})}
        self.server.put(path, {"metadata": meta, "spec": spec, "status": status})
        return path

    def owner(self, plural: str, version: str, kind: str, name: str, **more: Any) -> str:
        space = more.get("space", SPACE)
        meta: Resource = {"name": name, "namespace": space, "uid": f"uid-{kind}-{name}"}
        meta["labels"] = more.get("labels", {})
        if above := more.get("owner"):
            meta["ownerReferences"] = [reference(*above)]
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        path = f"{base}/namespaces/{space}/{plural}/{name}"
        self.server.put(path, {"metadata": meta, "spec": {"replicas": more.get("replicas", 1)}})
        return path

    def use(
        self, pod: str, use: Callable[[float], float | None], gpu: str = "0", **more: str
    ) -> None:
        """The use of a pod's GPU, by how many seconds ago."""
        labels = {"pod": pod, "namespace": SPACE, "gpu": gpu, "UUID": f"GPU-{gpu}"}
        metric = more.pop("metric", "DCGM_FI_DEV_GPU_UTIL")
        self.server.series.append({"metric": metric, "labels": {**labels, **more}, "use": use})

    def round(self, keeper: Keeper | None = None) -> Resource:
        self.server.time = self.wall
        return (keeper or self.keeper).round(Api(str(self.file), sleep=lambda _: None))

    def rounds(self, minutes: float, keeper: Keeper | None = None) -> Resource:
        """Rounds of half a minute for so long; what the last one saw."""
        for _ in range(round(minutes * 2)):
            self.wall, self.steady = self.wall + 30, self.steady + 30
            seen = self.round(keeper)
        return seen

    @property
    def said(self) -> list[tuple[str, str, str]]:
        events = [r for path, r in self.server.store.items() if "/events/" in path]
        return [(e["involvedObject"]["kind"], e["reason"], e["message"]) for e in events]

    @property
    def changes(self) -> list[tuple[str, str, Any]]:
        """What was changed beside events and the lease."""
        quiet = ("/events", "/leases")
        return [s for s in self.server.seen if s[0] != "GET" and not any(q in s[1] for q in quiet)]


def reference(version: str, kind: str, name: str) -> Resource:
    uid = f"uid-{kind}-{name}"
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def status(code: int, message: str = "no", **headers: str) -> Fault:
    return lambda handler: handler.answer(code, {"message": message}, **headers)


def hang(handler: Handler) -> None:
    handler.server.closing.wait(20)
    handler.close_connection = True
