"""The trial's queues as projects of Run:ai, and its work in their namespaces.

Run:ai makes the queues of its scheduler from its projects, so none is created directly. Each queue of the trial is a project of a
department of the trial's own. What Run:ai does for its own workloads only is not tried: the error says so, and the promise is not
assessed. Scheduler name and namespaces: docs.nvidia.com/run-ai/self-hosted, "setting the default scheduler".
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from appliance.acceptance.sandbox import MINE, ClusterClient, Name, Resource
from appliance.acceptance.workload import GROUP_FORM, NAMESPACE, PREFIX, QUEUE_LABEL, queue
from appliance.actions.kubernetes.queues import control_plane_of
from appliance.actions.sites.opening import NoSite, Target, locate
from appliance.adapters.runai import Document, Runai
from appliance.config.load import LoadedSite
from appliance.errors import ApplianceError
from appliance.models.events import Observer
from appliance.stages.queues.runai.there import (
    CLUSTERS,
    DEPARTMENTS,
    POOLS,
    PROJECTS,
    one_named,
    phase_of,
)

SCHEDULER = "runai-scheduler"
MARK = "appliance/acceptance=true"
"""In the description of what the trial creates."""
PATIENCE_S = 120.0
POLL_S = 2.0
QUEUES = ("scheduling.run.ai/v2", "Queue")
LIMITS = "appliance/limits=true"
PLACES = {"Department": (DEPARTMENTS, "departments"), "Project": (PROJECTS, "projects")}


def site_of(target: Target, observer: Observer) -> LoadedSite | None:
    """The site whose scheduler is Run:ai; None for another scheduler, or a cluster without a site."""
    try:
        loaded = locate(target, raise_rack=False, observer=observer)
    except NoSite:
        return None
    options = loaded.site.scheduler
    return loaded if options is not None and options.kind == "runai" else None


class Projects:
    """A cluster whose queues are projects of Run:ai. ``pool``: id of the default node pool."""

    def __init__(
        self,
        cluster: ClusterClient,
        client: Runai,
        own: str,
        pool: str,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._cluster, self._client, self._own, self._pool = cluster, client, own, pool
        self._sleep = sleep
        self._homes: dict[tuple[str, str], str] = {}
        self._spaces: dict[str, str] = {}

    def find(self, api_version: str, kind: str, selector: str) -> list[Resource]:
        """See ClusterClient."""
        if (api_version, kind) == QUEUES:
            return [_as_queue(kind, found) for kind in PLACES for found in self._all(kind)]
        if kind == "Namespace" and selector == MINE:
            return []
        if kind == "Namespace" and selector == LIMITS:
            raise ApplianceError(
                "Run:ai applies limits of time to its own workloads only, and the trial submits pods",
                "submit a workspace in a project with a limit, and see it end",
            )
        return self._cluster.find(api_version, kind, selector)

    def apply(self, resource: Resource) -> None:
        """See ClusterClient."""
        kind, meta = resource["kind"], resource["metadata"]
        if kind == "Namespace":
            return
        if kind == "Queue":
            self._unit(resource)
            return
        if kind == GROUP_FORM[1]:
            raise ApplianceError(
                "Run:ai makes the groups of pods of its own workloads, and the trial submits pods",
                "submit a distributed training in Run:ai, and see all its pods start together",
            )
        home = self._home(resource)
        self._homes[kind, meta["name"]] = home
        self._cluster.apply({**resource, "metadata": {**meta, "namespace": home}})

    def delete(self, name: Name) -> None:
        """See ClusterClient."""
        api_version, kind, called, namespace = name
        if (api_version, kind) == QUEUES:
            self._remove(called)
        elif kind != "Namespace":
            home = (
                self._homes.get((kind, called), namespace) if namespace == NAMESPACE else namespace
            )
            self._cluster.delete((api_version, kind, called, home))

    def _home(self, resource: Resource) -> str:
        """The namespace of the project that the work's queue is."""
        name = resource["metadata"].get("labels", {}).get(QUEUE_LABEL, "")
        if name not in self._spaces:
            raise ApplianceError(f"the trial has no project {name}", "try again")
        return self._spaces[name]

    def _unit(self, wanted: Resource) -> None:
        name, spec = wanted["metadata"]["name"], wanted["spec"]
        kind = "Project" if "parentQueue" in spec else "Department"
        path, _ = PLACES[kind]
        doing = f"create {kind.lower()} {name}"
        body: Document = {
            "description": MARK,
            "resources": [{"nodePool": {"id": self._pool}, "gpu": _amounts(spec)}],
        }
        new: Document = {"name": name, "clusterId": self._own}
        if kind == "Project":
            parent = self._named("Department", PREFIX)
            new["parentId"] = str((parent or {}).get("id", ""))
        found, is_new = self._client.create(
            path, doing, {**new, **body}, lambda: self._named(kind, name)
        )
        if not is_new:
            _require_mine(found)
            self._client.change("PUT", f"{path}/{found['id']}", doing, body)
        if kind == "Project":
            self._spaces[name] = self._ready(name)

    def _ready(self, name: str) -> str:
        """The project's namespace, once Run:ai has made it."""
        phase = ""
        for _ in range(int(PATIENCE_S / POLL_S)):
            found = self._named("Project", name) or {}
            phase = phase_of(found)
            status = found.get("status")
            if phase == "Ready" and isinstance(status, dict):
                return str(status.get("namespace", ""))
            self._sleep(POLL_S)
        raise ApplianceError(
            f"project {name} is {phase or 'missing'} after {PATIENCE_S:g} s",
            "check that Run:ai shows the cluster as Connected",
        )

    def _remove(self, name: str) -> None:
        for kind in ("Project", "Department"):
            found = self._named(kind, name)
            if found is None or not _is_mine(found):
                continue
            path = f"{PLACES[kind][0]}/{found['id']}"
            self._client.change("DELETE", path, f"delete {kind.lower()} {name}")
            for _ in range(int(PATIENCE_S / POLL_S)):
                if self._client.get(path, f"read {kind.lower()} {name}") is None:
                    break
                self._sleep(POLL_S)

    def _named(self, kind: str, name: str) -> Document | None:
        path, key = PLACES[kind]
        return one_named(self._client, path, key, self._own, name)

    def _all(self, kind: str) -> list[Document]:
        path, key = PLACES[kind]
        within = {"filterBy": f"clusterId=={self._own}", "sortBy": "name", "sortOrder": "asc"}
        return [
            one for one in self._client.every(path, key, f"list {key}", within) if _is_mine(one)
        ]


@contextmanager
def projects_of(loaded: LoadedSite, cluster: ClusterClient) -> Iterator[Projects]:
    """The cluster with the trial's projects. Raises ApplianceError without a service account or the cluster."""
    options = loaded.site.scheduler
    assert options is not None
    assert options.runai is not None
    name = options.runai.cluster or loaded.site.name
    with control_plane_of(loaded, options.runai) as client:
        rows = client.plain(CLUSTERS, "clusters", "list clusters")
        own = next((str(row["uuid"]) for row in rows if row.get("name") == name), None)
        if own is None:
            raise ApplianceError(
                f"{client.server} has no cluster {name}", "register it: docs/runai.md"
            )
        query = {"filterBy": f"clusterId=={own}", "sortBy": "name", "sortOrder": "asc"}
        pools = client.every(POOLS, "nodepools", "list node pools", query)
        pool = next((str(one["id"]) for one in pools if one.get("isDefault")), None)
        if pool is None:
            raise ApplianceError(
                f"cluster {name} has no default node pool in Run:ai",
                "wait until Run:ai shows the cluster as Connected",
            )
        yield Projects(cluster, client, own, pool)


def _amounts(spec: Mapping[str, Any]) -> Document:
    """GPUs of a queue; -1 is no limit there, and null here."""
    gpu = spec["resources"]["gpu"]
    limit = None if gpu["limit"] < 0 else gpu["limit"]
    return {
        "deserved": max(0, gpu["quota"]),
        "limit": limit,
        "overQuotaWeight": gpu["overQuotaWeight"],
    }


def _as_queue(kind: str, found: Document) -> Resource:
    return queue(str(found["name"]), 0, parent=PREFIX if kind == "Project" else "")


def _is_mine(found: Document) -> bool:
    return MARK in str(found.get("description") or "").split()


def _require_mine(found: Document) -> None:
    if not _is_mine(found):
        raise ApplianceError(
            f"Run:ai has a department or project {found.get('name')} that is not the trial's",
            "rename it: the trial needs this name",
        )
