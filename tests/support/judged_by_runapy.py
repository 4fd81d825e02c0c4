"""Judges requests by ``runapy``, NVIDIA's own client: its paths, its query parameters, and its models of the bodies.

It runs in an environment with runapy alone, which brings aiohttp and others that nothing here needs:

    python -m tests.support.runai_requests > requests.json
    python -m venv judge && judge/bin/pip install runapy==1.224.0
    judge/bin/python tests/support/judged_by_runapy.py < requests.json

Release 1.224.0 is that of product 2.24. Fields that 3.0 added are listed in NEW.
"""

import importlib
import json
import sys
from typing import Any
from urllib.parse import parse_qsl, urlsplit

NEW = {"resources.rank"}
"""Fields of 3.0, which this client does not know; tests/contract/test_runai_bodies.py names their pages."""
SINCE_3 = {"/api/v2/authorization/roles", "/api/v1/org-unit/ranks"}
"""Paths of 3.0. Before, roles were at v1, and ranks were priorities."""

CALLS: dict[tuple[str, str], tuple[str, str, str | None]] = {
    ("POST", "node-pools"): ("NodePoolsApi", "create_nodepool", "NodepoolCreateFields"),
    ("PATCH", "node-pools"): ("NodePoolsApi", "patch_nodepool", "NodepoolUpdateFields"),
    ("DELETE", "node-pools"): ("NodePoolsApi", "delete_nodepool", None),
    ("GET", "node-pools"): ("NodePoolsApi", "get_nodepools", None),
    ("POST", "departments"): (
        "DepartmentsApi",
        "create_department",
        "DepartmentCreationRequest",
    ),
    ("PUT", "departments"): ("DepartmentsApi", "update_department", "DepartmentUpdateRequest"),
    ("DELETE", "departments"): ("DepartmentsApi", "delete_department", None),
    ("GET", "departments"): ("DepartmentsApi", "get_departments", None),
    ("POST", "projects"): ("ProjectsApi", "create_project", "ProjectCreationRequest"),
    ("PUT", "projects"): ("ProjectsApi", "update_project", "ProjectUpdateRequest"),
    ("DELETE", "projects"): ("ProjectsApi", "delete_project", None),
    ("GET", "projects"): ("ProjectsApi", "get_projects", None),
    ("POST", "access-rules"): ("AccessRulesApi", "create_access_rule", "AccessRuleCreationFields"),
    ("DELETE", "access-rules"): ("AccessRulesApi", "delete_access_rule", None),
    ("GET", "access-rules"): ("AccessRulesApi", "get_access_rules", None),
    ("GET", "clusters"): ("ClustersApi", "get_clusters", None),
    ("GET", "workloads"): ("WorkloadsApi", "get_workloads", None),
}
ONE = {
    "node-pools": "get_nodepool",
    "departments": "get_department",
    "projects": "get_project",
}
"""How a single object is read."""


class Recorder:
    """Takes the place of runapy's connection: keeps what it would send."""

    sent: dict[str, Any]

    def call_api(self, **given: Any) -> None:
        """Keeps path, method and query parameters."""
        self.sent = given


def judge(method: str, path: str, body: object) -> list[str]:
    """What runapy would do otherwise."""
    parts = urlsplit(path)
    if parts.path in SINCE_3:
        return []
    words = parts.path.split("/")
    group = next(word for word in words if word in {key for _, key in CALLS})
    identity = words[words.index(group) + 1 :]
    api, call, model = CALLS[method, group]
    if method == "GET" and identity:
        call = ONE[group]
    runai, models = (importlib.import_module(name) for name in ("runai.api", "runai.models"))
    found: list[str] = []
    given: list[Any] = list(identity)
    if model is not None:
        made = getattr(models, model).from_dict(body)
        given.append(made)
        known = json.loads(made.to_json())
        lost = sorted(set(keys(body)) - set(keys(known)) - NEW)
        found += [f"{method} {parts.path}: {model} does not know {key}" for key in lost]
    recorder = Recorder()
    getattr(getattr(runai, api)(recorder), call)(*given)
    sent = recorder.sent
    if (sent["method"], sent["resource_path"]) != (method, parts.path):
        found.append(
            f"{method} {parts.path}: runapy sends {sent['method']} {sent['resource_path']}"
        )
    queries = {name for name, _ in sent.get("query_params") or ()}
    asked = {name for name, _ in parse_qsl(parts.query)}
    return found + [f"{method} {parts.path}: no query {name}" for name in sorted(asked - queries)]


def keys(body: object, before: str = "") -> list[str]:
    """Every key with a value, by its path; entries of lists have no number. What is null may be left out."""
    if isinstance(body, dict):
        return [
            found
            for key, value in body.items()
            if value is not None and value != {}
            for found in (f"{before}{key}", *keys(value, f"{before}{key}."))
        ]
    if isinstance(body, list):
        return [found for item in body for found in keys(item, before)]
    return []


if __name__ == "__main__":
    lines = [json.loads(line) for line in sys.stdin]
    problems = [problem for line in lines for problem in judge(*line)]
    sys.stdout.write("\n".join([*dict.fromkeys(problems), f"{len(lines)} requests"]) + "\n")
    sys.exit(1 if problems else 0)
