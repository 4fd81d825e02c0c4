"""A client of the stand-in for tests; nothing of it is the program's."""

import http.client
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.support.runai.server import StandIn

FORM = "application/x-www-form-urlencoded"
UNITS = "/api/v1/org-unit"


class User:
    """Each request has a connection of its own; ``headers``: those of the last answer."""

    def __init__(self, stand_in: StandIn, folder: Path) -> None:
        self.world = stand_in.world
        self.where = urlsplit(stand_in.url)
        self.tls = ssl.create_default_context(cafile=folder / "cert.pem")
        self.bearer = ""
        self.headers: dict[str, str] = {}

    def send(self, method: str, path: str, data: bytes | None, kind: str) -> tuple[int, Any]:
        """One request on a connection of its own."""
        connection = http.client.HTTPSConnection(
            str(self.where.hostname), self.where.port, context=self.tls, timeout=30
        )
        headers = {"Authorization": f"Bearer {self.bearer}", "Content-Type": kind}
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            self.headers = dict(answer.getheaders())
            words = answer.read()
        finally:
            connection.close()
        if words and self.headers["Content-Type"] != "application/json":
            return answer.status, words.decode()
        return answer.status, json.loads(words) if words else None

    def do(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """A request with a JSON body."""
        data = None if body is None else json.dumps(body).encode()
        return self.send(method, path, data, "application/json")

    def good(self, method: str, path: str, body: Any = None) -> Any:
        """The same, which must succeed."""
        status, answer = self.do(method, path, body)
        assert status < 300, answer
        return answer

    def log_in(self, **form: str) -> tuple[int, Any]:
        """A token by form; kept when it was given."""
        data = urlencode(form).encode()
        status, answer = self.send("POST", "/api/v2/token", data, FORM)
        self.bearer = answer.get("access_token", "")
        return status, answer

    def as_administrator(self) -> "User":
        """Logged in by name and password."""
        name, password = self.world.administrator, self.world.password
        assert self.log_in(grant_type="password", username=name, password=password)[0] == 200
        return self

    def cluster(self, name: str = "one") -> str:
        """A new cluster's id."""
        return str(self.good("POST", "/api/v1/clusters", {"name": name})["uuid"])

    def unit(self, kind: str, name: str, cluster: str, **more: Any) -> Any:
        """A new department or project without resources."""
        body = {"name": name, "clusterId": cluster, "resources": [], **more}
        return self.good("POST", f"{UNITS}/{kind}", body)
