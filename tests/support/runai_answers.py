"""Answers of Run:ai's REST API on loopback, as few as the client's own tests need, and faults when they are wanted."""

import json
import ssl
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

Document = dict[str, Any]
Fault = Callable[["Handler"], None]

SECRET = "a-secret-of-the-account"
CLUSTER = "71f69d83-ba66-4822-adf5-55ce55efd210"
LISTS = {
    "/api/v1/clusters": "clusters",
    "/api/v1/node-pools": "nodepools",
    "/api/v1/org-unit/departments": "departments",
    "/api/v1/org-unit/projects": "projects",
    "/api/v1/org-unit/ranks": "ranks",
    "/api/v2/authorization/roles": "roles",
    "/api/v1/authorization/access-rules": "accessRules",
    "/api/v1/workloads": "workloads",
}
RANKS = ("VeryLow", "Low", "MediumLow", "Medium", "MediumHigh", "High", "VeryHigh")


class Answers(ThreadingHTTPServer):
    """``lists`` by path; ``faults`` are used up one per request; ``seen`` is every request but those of tokens.

    ``tokens``: number of the tokens given; ``valid``: whether the last one is accepted. ``between``: called after each page.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lists: dict[str, list[Document]] = {path: [] for path in LISTS}
        self.lists["/api/v1/clusters"] = [{"uuid": CLUSTER, "name": "acme"}]
        self.lists["/api/v1/node-pools"] = [self.pool("default", isDefault=True)]
        self.lists["/api/v1/org-unit/departments"] = [self.unit("default", description="Run:ai's")]
        self.lists["/api/v1/org-unit/ranks"] = [{"name": name} for name in RANKS]
        self.lists["/api/v2/authorization/roles"] = [
            {"id": 3, "name": "Viewer"},
            {"id": 17, "name": "AI practitioner"},
        ]
        self.faults: deque[Fault | None] = deque()
        self.seen: list[tuple[str, str, Any]] = []
        self.forms: list[dict[str, list[str]]] = []
        self.tokens = 0
        self.valid = True
        self.expires_in: object = 3600
        self.between: Callable[[], None] = lambda: None
        self.last = 100
        self.phase = ""
        self.deleted = 204
        self.closing = Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def projects(self) -> dict[str, Document]:
        return {one["name"]: one for one in self.lists["/api/v1/org-unit/projects"]}

    def pool(self, name: str, **more: object) -> Document:
        return {"id": f"pool-{name}", "name": name, "clusterId": CLUSTER, **more}

    def unit(self, name: str, **more: object) -> Document:
        return {"id": f"unit-{name}", "name": name, "clusterId": CLUSTER, "resources": [], **more}

    def changes(self) -> list[tuple[str, str]]:
        return [(method, path) for method, path, _ in self.seen if method != "GET"]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Answers

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        self._serve(self._get)

    def do_POST(self) -> None:
        self._serve(self._post)

    def do_PUT(self) -> None:
        self._serve(self._change)

    def do_PATCH(self) -> None:
        self._serve(self._change)

    def do_DELETE(self) -> None:
        self._serve(self._delete)

    def answer(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        if status == 204:
            data = b""
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _serve(self, act: Callable[[str, dict[str, list[str]], Any], None]) -> None:
        parts = urlsplit(self.path)
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if parts.path == "/api/v2/token":
            self._token(parse_qs(data.decode()))
            return
        body = json.loads(data) if data else None
        self.server.seen.append((self.command, self.path, body))
        fault = self.server.faults.popleft() if self.server.faults else None
        if fault is not None:
            fault(self)
        elif not self.server.valid or self.headers["Authorization"] != f"Bearer {self._current}":
            self.answer(401, {"code": 401, "message": "Unauthorized"})
        else:
            act(parts.path, parse_qs(parts.query), body)

    @property
    def _current(self) -> str:
        return f"token-{self.server.tokens}"

    def _token(self, form: dict[str, list[str]]) -> None:
        self.server.forms.append(form)
        if form.get("client_secret") != [SECRET]:
            self.answer(401, {"error": "invalid_client", "error_description": "wrong secret"})
            return
        self.server.tokens += 1
        self.server.valid = True
        given = {"access_token": self._current, "token_type": "Bearer"}
        self.answer(200, {**given, "expires_in": self.server.expires_in})

    def _get(self, path: str, query: dict[str, list[str]], _: Any) -> None:
        if path not in self.server.lists:
            found = self._one(path)
            self.answer(*((200, found) if found else (404, {"code": 404, "message": "not found"})))
            return
        filters = [f.split("==") for f in query.get("filterBy", [""])[0].split(",") if f]
        filters += [[k, query[k][0]] for k in ("scopeId", "roleId", "scopeType") if k in query]
        found_all = [
            one
            for one in self.server.lists[path]
            if all(str(one.get(key, value)) == value for key, value in filters)
        ]
        if "sortBy" in query:
            found_all.sort(key=lambda one: str(one[query["sortBy"][0]]))
        start = int(query.get("offset", ["0"])[0])
        page = found_all[start : start + int(query.get("limit", ["50"])[0])]
        more = {"totalRecords": len(found_all)} if "access-rules" in path else {}
        bare = path == "/api/v1/clusters"
        self.answer(200, page if bare else {LISTS[path]: page, **more})
        self.server.between()

    def _post(self, path: str, _: dict[str, list[str]], body: Any) -> None:
        self.keep(path, body)

    def keep(self, path: str, body: Any, *, quietly: bool = False) -> None:
        """Creates an object; ``quietly``: sends no answer."""
        there = self.server.lists[path]
        if any("name" in one and one["name"] == body.get("name") for one in there):
            self.answer(409, {"code": 409, "message": "already exists"})
            return
        self.server.last += 1
        made = {**body, "id": self.server.last if "roleId" in body else f"id-{self.server.last}"}
        if self.server.phase:
            made["status"] = {"phase": self.server.phase, "phaseMessage": "the agent is away"}
        there.append(made)
        if not quietly:
            self.answer(201, made)

    def _change(self, path: str, _: dict[str, list[str]], body: Any) -> None:
        found = self._one(path)
        if found is None:
            self.answer(404, {"code": 404, "message": "not found"})
            return
        found.update(body)
        self.answer(200, found)

    def _delete(self, path: str, _: dict[str, list[str]], __: Any) -> None:
        found = self._one(path)
        if found is None:
            self.answer(404, {"code": 404, "message": "not found"})
        elif self.server.deleted == 202 and "status" not in found:
            found["status"] = {"phase": "Deleting"}
            self.answer(202, {})
        else:
            self.server.lists[path.rsplit("/", 1)[0]].remove(found)
            self.answer(204, {})

    def _one(self, path: str) -> Document | None:
        folder, identity = path.rsplit("/", 1)
        there = self.server.lists.get(folder, [])
        return next((one for one in there if str(one.get("id")) == identity), None)


def status(code: int, message: str = "", **headers: str) -> Fault:
    """Answers with an error once."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.answer(code, {"code": code, "message": message}, named)


def text(code: int, body: bytes) -> Fault:
    """Answers with these bytes."""
    return lambda handler: handler.answer(code, body)


def reset(handler: Handler) -> None:
    """Ends the connection without an answer, and without doing anything."""
    handler.close_connection = True


def hang(handler: Handler) -> None:
    """Takes the request and says nothing until the server closes."""
    handler.server.closing.wait(20)
    handler.close_connection = True


def lost(handler: Handler) -> None:
    """Carries the POST out, and loses the answer."""
    handler.keep(handler.path, handler.server.seen[-1][2], quietly=True)
    handler.close_connection = True


@contextmanager
def serving(certificate: Path | None = None) -> Iterator[Answers]:
    """``certificate``: file of a certificate and its key, for TLS."""
    with Answers() as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()
