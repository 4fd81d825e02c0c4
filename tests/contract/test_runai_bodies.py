"""What is sent to Run:ai has the fields that the documentation of 3.0 describes, and no others.

Pages below docs.nvidia.com/run-ai/self-hosted/reference/rest-api/endpoints, and /deprecation-notifications of the same
documentation. ``tests/support/judged_by_runapy.py`` judges the same requests by NVIDIA's own client of 2.24.
"""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from appliance.stages.scheduler.queues.runai import DEFAULT_RANK, RANKS
from tests.support.runai_requests import requests

FIELDS: dict[tuple[str, str], tuple[set[str], set[str]]] = {
    # organizations/node-pools/create-nodepool; overProvisioningRatio and a top-level placementStrategy ended before 3.0.
    ("POST", "node-pools"): (
        {"name", "labelKey", "labelValue", "clusterId"},
        {"schedulingConfiguration"},
    ),
    ("PATCH", "node-pools"): (set(), {"schedulingConfiguration"}),
    # organizations/departments/create-department: resources are required since 3.0. nodeTypes is deprecated.
    ("POST", "departments"): ({"name", "clusterId", "resources"}, {"description"}),
    ("PUT", "departments"): (
        {"resources"},
        {"description", "schedulingRules", "defaultNodePools"},
    ),
    # organizations/projects/create-project and update-project: an update cannot name another department.
    ("POST", "projects"): (
        {"name", "clusterId", "resources"},
        {
            "description",
            "schedulingRules",
            "defaultNodePools",
            "parentId",
            "enforceRunaiScheduler",
        },
    ),
    ("PUT", "projects"): (
        {"resources"},
        {"description", "schedulingRules", "defaultNodePools", "enforceRunaiScheduler"},
    ),
    # authentication-and-authorization/access-rules/create-access-rule: there is no update.
    ("POST", "access-rules"): (
        {"subjectId", "subjectType", "roleId", "scopeId", "scopeType"},
        {"clusterId"},
    ),
}
SHARE = {"nodePool", "gpu", "cpu", "memory", "rank"}
"""organizations/projects/update-project-resources; rank is new in 3.0 and was called priority before."""
AMOUNT = {"deserved", "limit", "overQuotaWeight"}
RULES = {
    "interactiveJobTimeLimitSeconds",
    "interactiveJobMaxIdleDurationSeconds",
    "interactiveJobPreemptIdleDurationSeconds",
    "trainingJobTimeLimitSeconds",
    "trainingJobMaxIdleDurationSeconds",
}
GONE = (
    "/api/v1/k8s",
    "/api/v1/apps",
    "/api/v1/user-applications",
    "/api/v1/org-unit/priorities",
    "/api/v1/authorization/roles",
)
"""deprecation-notifications: ended with 3.0."""


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, Any]]:
    """Every request of a tree that is created, reverted and replaced."""
    folder: Path = tmp_path_factory.mktemp("runai")
    return list(requests(folder))


def group(path: str) -> str:
    words = urlsplit(path).path.split("/")
    return next(word for word in reversed(words) if not any(c.isdigit() for c in word))


def test_bodies_have_the_documented_fields(sent: list[tuple[str, str, Any]]) -> None:
    with_body = [(method, group(path), body) for method, path, body in sent if body is not None]
    assert {(method, name) for method, name, _ in with_body} == set(FIELDS)
    for method, name, body in with_body:
        required, optional = FIELDS[method, name]
        assert required <= set(body) <= required | optional


def test_shares_have_the_documented_fields(sent: list[tuple[str, str, Any]]) -> None:
    entries = [entry for _, _, body in sent if body for entry in body.get("resources", ())]
    assert len(entries) > 10
    for entry in entries:
        assert set(entry) == SHARE
        assert entry["nodePool"]["id"]
        assert entry["rank"] in RANKS
        assert set(entry["gpu"]) == AMOUNT
        assert entry["cpu"] is None or set(entry["cpu"]) == AMOUNT
        assert entry["memory"] is None or set(entry["memory"]) == {*AMOUNT, "units"}
        assert entry["memory"] is None or entry["memory"]["units"] in ("Mib", "MB", "GB")
    assert any(entry["memory"] for entry in entries)


def test_the_default_rank_is_the_documented_one() -> None:
    """organizations/projects/update-project-resources: MediumLow, below Medium, which is below High."""
    assert DEFAULT_RANK == "MediumLow"
    order = [RANKS.index(name) for name in ("MediumLow", "Medium", "High")]
    assert order == sorted(order)


def test_limits_of_time_are_whole_seconds_of_the_documented_rules(
    sent: list[tuple[str, str, Any]],
) -> None:
    rules = [body["schedulingRules"] for _, _, body in sent if body and "schedulingRules" in body]
    assert any(rules)
    for given in rules:
        assert set(given) <= RULES
        assert all(isinstance(value, int) and value >= 1 for value in given.values())


def test_members_are_users_and_groups_in_the_scope_of_a_project(
    sent: list[tuple[str, str, Any]],
) -> None:
    """Subject type app is deprecated."""
    given = [body for _, path, body in sent if body and group(path) == "access-rules"]
    assert {body["subjectType"] for body in given} == {"user", "group"}
    assert {body["scopeType"] for body in given} == {"project"}
    assert all(isinstance(body["roleId"], int) for body in given)


def test_no_path_that_ended_with_3_0_is_used(sent: list[tuple[str, str, Any]]) -> None:
    paths = {urlsplit(path).path for _, path, _ in sent}
    assert {"/api/v2/authorization/roles", "/api/v1/org-unit/ranks"} <= paths
    assert not [path for path in paths if path.startswith(GONE)]


def test_a_page_has_at_most_500_entries(sent: list[tuple[str, str, Any]]) -> None:
    limits = [
        int(v) for _, path, _ in sent for k, v in parse_qsl(urlsplit(path).query) if k == "limit"
    ]
    assert limits
    assert all(1 <= value <= 500 for value in limits)
