"""What the stand-in of Run:ai's control plane remembers: its objects, tokens and clusters. Standard library only.

Time: ``World.now`` is a clock that tests move. What a real control plane does in the background (a project becomes ready, a deletion
ends) is done after ``settles`` further requests, so that no test waits. ``settles`` None: it is never done.
"""

import base64
import json
import secrets
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.support.runai.shapes import Json, Refused

TOKEN_S = 3600
BOOTSTRAP_S = 2 * 3600
LIVENESS_S = 300
"""After so long without a heartbeat a cluster counts as disconnected (assumed)."""
ADMINISTRATOR = "System administrator"
ROLES = (ADMINISTRATOR, "Department administrator", "Research manager", "Viewer")
WRITERS = frozenset({ADMINISTRATOR})
CHART_URL = "https://helm.ngc.nvidia.com/nvidia/runai-oss"
KINDS = (
    "clusters",
    "node-pools",
    "departments",
    "projects",
    "users",
    "service-accounts",
    "access-rules",
    "network-topologies",
    "policies",
)


@dataclass
class Stored:
    """One object; ``ready``, ``gone``: counts of requests from which it is ready, or no longer there."""

    body: Json
    ready: int | None = 0
    gone: int | None = None
    deleting: bool = False


@dataclass
class Token:
    """``subject``: the administrator's name or a client id."""

    subject: str
    ends: float


@dataclass
class World:
    """Everything of one control plane. ``stuck``: names that never become ready, with the reason; ``states``: of clusters, set by tests."""

    release: str = "3.0"
    administrator: str = "admin@runai.example.com"
    password: str = "Abcdefg1!"
    settles: int | None = 2
    clock: Callable[[], float] = time.time
    skew: float = 0
    requests: int = 0
    tenant: int = field(default_factory=lambda: 1000 + secrets.randbelow(9000))
    tables: dict[str, dict[str, Stored]] = field(
        default_factory=lambda: {kind: {} for kind in KINDS}
    )
    roles: dict[int, str] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    stuck: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    missing: dict[str, dict[str, str]] = field(default_factory=dict)
    workloads: list[Json] = field(default_factory=list)
    heartbeats: dict[str, float] = field(default_factory=dict)
    later: list[tuple[int, Callable[[], object]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        numbers = secrets.SystemRandom().sample(range(10, 9999), len(ROLES))
        self.roles = dict(zip(numbers, ROLES, strict=True))

    def now(self) -> float:
        """Seconds since the epoch, by the clock of the tests."""
        return self.clock() + self.skew

    def stamp(self) -> str:
        """The same, as bodies have it."""
        return datetime.fromtimestamp(self.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def advance(self, seconds: float) -> None:
        """Move the clock."""
        self.skew += seconds

    def count(self) -> None:
        """One more request: what is due by now happens."""
        self.requests += 1
        due = [act for at, act in self.later if at <= self.requests]
        self.later = [entry for entry in self.later if entry[0] > self.requests]
        for act in due:
            act()
        for table in self.tables.values():
            for key in [k for k, o in table.items() if self._over(o)]:
                del table[key]

    def _over(self, stored: Stored) -> bool:
        return stored.gone is not None and stored.gone <= self.requests

    def due(self) -> int | None:
        """The request from which what begins now is done."""
        return None if self.settles is None else self.requests + self.settles + 1

    # Objects

    def add(self, kind: str, body: Json, key: str = "") -> Json:
        """A new object with random id and its times."""
        stamp = self.stamp()
        key = key or str(uuid.uuid4())
        own = {"createdAt": stamp, "updatedAt": stamp, "createdBy": self.administrator}
        self.tables[kind][key] = Stored({**body, **own}, ready=self.due())
        return self.tables[kind][key].body

    def find(self, kind: str, key: str) -> Stored:
        """Raises Refused 404."""
        found = self.tables[kind].get(key)
        if found is None:
            raise Refused(404, f"{kind} {key} not found")
        return found

    def named(self, kind: str, name: str, cluster: str = "") -> Stored | None:
        """The object of this name, in its cluster."""
        for stored in self.tables[kind].values():
            same = stored.body.get("name") == name
            if same and cluster in ("", stored.body.get("clusterId")):
                return stored
        return None

    def unique(self, kind: str, name: str, cluster: str = "") -> None:
        """Raises Refused 409 where the name is taken."""
        if self.named(kind, name, cluster) is not None:
            raise Refused(409, f"{kind}: {name} already exists")

    def change(self, kind: str, key: str, body: Json) -> Json:
        """Replace these fields."""
        stored = self.find(kind, key)
        if stored.deleting:
            raise Refused(409, f"{kind} {key} is being deleted")
        stored.body.update(body, updatedAt=self.stamp())
        return stored.body

    def delete(self, kind: str, key: str) -> None:
        """Begin a deletion, which ends after some requests."""
        stored = self.find(kind, key)
        stored.deleting = True
        stored.gone = self.due()

    def phase(self, stored: Stored) -> str:
        """Creating, Ready, NotReady or Deleting."""
        if stored.deleting:
            return "Deleting"
        if stored.body.get("name") in self.stuck:
            return "NotReady"
        ready = stored.ready is not None and stored.ready <= self.requests
        return "Ready" if ready else "Creating"

    # Tokens

    def granted(self, form: Json) -> tuple[int, Json] | None:
        """The answer of another issuer to a token's form; None: the stand-in issues tokens itself."""
        return None

    def token(self, subject: str) -> str:
        """A new access token."""
        made = secrets.token_urlsafe(32)
        self.tokens[made] = Token(subject, self.now() + TOKEN_S)
        return made

    def expire(self) -> None:
        """All access tokens end now."""
        for token in self.tokens.values():
            token.ends = self.now()

    def subject(self, bearer: str) -> str:
        """Whose token this is. Raises Refused 401."""
        found = self.tokens.get(bearer)
        if found is None or found.ends <= self.now():
            raise Refused(401, "token is invalid or has expired")
        return found.subject

    def may(self, subject: str, writes: bool) -> None:
        """Raises Refused 403 without an access rule that allows it."""
        if subject == self.administrator:
            return
        own = [
            self.roles.get(stored.body["roleId"], "")
            for stored in self.tables["access-rules"].values()
            if stored.body["subjectId"] in self._names(subject) and not stored.deleting
        ]
        if not own or (writes and not WRITERS & set(own)):
            raise Refused(403, "the access rules of this subject do not allow it")

    def _names(self, client: str) -> set[str]:
        for key, stored in self.tables["service-accounts"].items():
            if stored.body["clientId"] == client:
                return {client, key, stored.body["name"]}
        return {client}

    # Clusters

    def bootstrap(self, cluster: str) -> str:
        """A token that a cluster's installation may use for two hours."""
        claims = {"sub": cluster, "exp": int(self.now()) + BOOTSTRAP_S, "jti": secrets.token_hex(8)}
        parts = ({"alg": "none", "typ": "JWT"}, claims)
        words = [
            base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts
        ]
        return ".".join([*words, secrets.token_urlsafe(16)])

    def heartbeat(self, cluster: str, token: str, version: str = "") -> None:
        """What the agent of a cluster does; a look-alike calls it. Raises Refused 401 for another's or an old token."""
        stored = self.find("clusters", cluster)
        claims = _claims(token)
        if claims.get("sub") != cluster:
            raise Refused(401, "this bootstrap token is of another cluster")
        if cluster not in self.heartbeats and claims.get("exp", 0) <= self.now():
            raise Refused(401, "the bootstrap token has expired")
        self.heartbeats[cluster] = self.now()
        if version:
            stored.body["version"] = version

    def state(self, cluster: str) -> str:
        """Set by a test, or from the heartbeats."""
        if cluster in self.states:
            return self.states[cluster]
        if cluster not in self.heartbeats:
            return "WaitingToConnect"
        if self.missing.get(cluster):
            return "MissingPrerequisites"
        alive = self.now() - self.heartbeats[cluster] < LIVENESS_S
        return "Connected" if alive else "Disconnected"


def _claims(token: str) -> dict[str, Any]:
    try:
        words = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(words + "=" * (-len(words) % 4)))
    except (IndexError, ValueError):
        raise Refused(401, "not a bootstrap token") from None
    return dict(found)
