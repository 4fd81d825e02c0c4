"""A Kubernetes API on loopback that keeps what it is given and misbehaves when it is told to."""

import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

Resource = dict[str, Any]
Fault = Callable[["Handler"], None]


class Api(ThreadingHTTPServer):
    """``store`` by path; ``faults`` are used up one per request; ``seen`` is every request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.store: dict[str, Resource] = {}
        self.faults: deque[Fault | None] = deque()
        self.seen: list[tuple[str, str]] = []
        self.unknown: set[str] = set()
        self.version = 0
        self.closing = Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def put(self, path: str, resource: Resource) -> None:
        self.version += 1
        resource.setdefault("metadata", {})["resourceVersion"] = str(self.version)
        self.store[path] = resource


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Api

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        self._serve(self._get)

    def do_PATCH(self) -> None:
        self._serve(self._patch)

    def do_DELETE(self) -> None:
        self._serve(self._delete)

    def answer(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _serve(self, act: Callable[[str, dict[str, list[str]], Resource], None]) -> None:
        parts = urlsplit(self.path)
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else {}
        self.server.seen.append((self.command, parts.path))
        fault = self.server.faults.popleft() if self.server.faults else None
        if fault is not None:
            fault(self)
            return
        act(parts.path, parse_qs(parts.query), body)

    def _get(self, path: str, query: dict[str, list[str]], _: Resource) -> None:
        if path in self.server.store:
            self.answer(200, self.server.store[path])
        elif path.rsplit("/", 1)[-1].endswith("s") and path.rsplit("/", 1)[-1] in PLURALS:
            words = [word for word in query.get("labelSelector", [""])[0].split(",") if word]
            wanted = dict(word.split("=", 1) for word in words if "=" in word)
            keys = {word for word in words if "=" not in word}
            found = [
                resource
                for where, resource in self.server.store.items()
                if where.rsplit("/", 2)[1] == path.rsplit("/", 1)[-1]
                and wanted.items() <= resource["metadata"].get("labels", {}).items()
                and keys <= resource["metadata"].get("labels", {}).keys()
            ]
            self.answer(200, {"items": found})
        else:
            self.answer(404, {"message": f"{path} not found"})

    def _patch(self, path: str, query: dict[str, list[str]], body: Resource) -> None:
        plural = path.rsplit("/", 2)[1]
        applied = self.headers.get("Content-Type") == "application/apply-patch+yaml"
        known = self.server.store.get(path)
        if plural in self.server.unknown or (known is None and not applied):
            self.answer(404, {"message": "not found"})
            return
        before = json.loads(json.dumps(known or {}))
        merged = json.loads(json.dumps(known or {}))
        if applied:
            for owned in merged.get("metadata", {}).get("managedFields", []):
                _drop(merged, body, owned["fieldsV1"])
        _merge(merged, body)
        if applied:
            manager = query["fieldManager"][0]
            fields = _fields({k: v for k, v in body.items() if k not in ("apiVersion", "kind")})
            merged["metadata"]["managedFields"] = [
                {"manager": manager, "operation": "Apply", "fieldsV1": fields}
            ]
        if merged != before:
            self.server.put(path, merged)
        self.answer(200, self.server.store[path])

    def _delete(self, path: str, _: dict[str, list[str]], __: Resource) -> None:
        found = self.server.store.pop(path, None)
        self.answer(200 if found else 404, {})


PLURALS = frozenset(
    [
        "networkpolicies",
        "queues",
        "topologies",
        "schedulingshards",
        "priorityclasses",
        "namespaces",
        "pods",
        "nodes",
        "persistentvolumes",
        "persistentvolumeclaims",
        "jobs",
        "cronjobs",
        "deployments",
        "replicasets",
        "statefulsets",
        "projects",
        "departments",
        "nodepools",
        "roles",
        "rolebindings",
        "clusterroles",
        "clusterrolebindings",
        "configmaps",
        "flowschemas",
        "limitranges",
        "prioritylevelconfigurations",
        "resourcequotas",
        "secrets",
        "serviceaccounts",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    ]
)


def status(code: int, message: str = "", **headers: str) -> Fault:
    """Answers with an error once."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.answer(code, {"kind": "Status", "message": message}, named)


def hang(handler: Handler) -> None:
    """Takes the request and says nothing until the server closes."""
    handler.server.closing.wait(20)
    handler.close_connection = True


def reset(handler: Handler) -> None:
    """Ends the connection without an answer."""
    handler.close_connection = True


@contextmanager
def serving() -> Iterator[Api]:
    with Api() as api:
        thread = Thread(target=api.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield api
        finally:
            api.closing.set()
            api.shutdown()
            thread.join()


def kubeconfig(folder: Path, address: str, **cluster: object) -> Path:
    """A kubeconfig with a token."""
    file = folder / "kubeconfig"
    file.touch(mode=0o600)
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "me"}}],
        "clusters": [{"name": "it", "cluster": {"server": address, **cluster}}],
        "users": [{"name": "me", "user": {"token": "a-secret-token"}}],
    }
    file.write_text(json.dumps(document))
    return file


def _merge(into: Resource, new: Resource) -> None:
    for key, value in new.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = json.loads(json.dumps(value))


def _fields(resource: Resource) -> Resource:
    return {
        f"f:{key}": _fields(value) if isinstance(value, dict) and value else {}
        for key, value in resource.items()
        if key not in ("name", "namespace")
    }


def _drop(found: Resource, given: Resource, fields: Resource) -> None:
    for key, below in fields.items():
        name = key[2:]
        if name not in found:
            continue
        if below:
            _drop(found[name], given.get(name, {}), below)
        elif name not in given:
            del found[name]
