"""Read the stand-in with runapy, the generated client of another author. By hand, in an environment that has the package.

    python -m venv /tmp/v && /tmp/v/bin/pip install runapy==1.224.0 && PYTHONPATH=. /tmp/v/bin/python tests/support/runai/by_runapy.py

runapy 1.224.0 is of product 2.24, so it judges the fields of ``release`` "2.24" only. Each line is one call, and the model of the
package that parsed the answer.
"""

import json
import sys
import tempfile
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from tests.support.runai.server import StandIn, standing
from tests.support.runai.tls import certificate
from tests.support.runai.world import ADMINISTRATOR, World


def parsed(model: Any, answer: Any) -> Any:
    """An answer as the package's own model of it. Raises its ValidationError."""
    found = model.from_dict(answer)
    sys.stdout.write(f"{model.__name__}\n")
    return found


def client_of(stand_in: StandIn, folder: Path) -> Any:
    """The package's client, logged in as an application with the administrator's role."""
    world = stand_in.world
    name = "trial-1"
    body = {"id": "1", "name": "trial", "clientId": name, "enabled": True, "lastLogin": None}
    world.add("service-accounts", {**body, "tenantId": str(world.tenant)}, "1")
    world.secrets[name] = "secret"
    role = next(number for number, known in world.roles.items() if known == ADMINISTRATOR)
    world.add("access-rules", _first_rule(world, name, role), "7")
    configuration = import_module("runai.configuration").Configuration(
        client_id=name,
        client_secret="secret",
        runai_base_url=stand_in.url,
        ssl_ca_cert=str(folder / "cert.pem"),
        auto_refresh_token=False,
        retry_enabled=False,
    )
    made = import_module("runai.api_client").ApiClient(configuration)
    return import_module("runai.runai_client").RunaiClient(made)


def _first_rule(world: World, client: str, role: int) -> dict[str, Any]:
    tenant = world.tenant
    scope = {"scopeId": str(tenant), "scopeType": "tenant", "scopeName": "tenant"}
    subject = {"subjectId": client, "subjectType": "service-account"}
    return {
        **subject,
        **scope,
        "roleId": role,
        "roleName": ADMINISTRATOR,
        "id": 7,
        "tenantId": tenant,
    }


def clusters_and_pools(client: Any, models: Any) -> tuple[str, str]:
    """A cluster and a pool are made, listed and read. The ids of both."""
    own = client.organizations
    made = own.clusters.create_cluster(models.ClusterCreationRequest(name="one")).data
    cluster = parsed(models.DisplayedCluster, made).uuid
    for row in own.clusters.get_clusters(verbosity="full").data:
        parsed(models.DisplayedCluster, row)
    info = own.clusters.get_cluster_install_info_by_uuid(cluster, version="2.24").data
    parsed(models.ClusterInstallationInfoResponse, info)
    fields = models.NodepoolCreateFields(
        name="h100", labelKey="pool", labelValue="h100", clusterId=cluster
    )
    pool = parsed(models.Nodepool, own.node_pools.create_nodepool(fields).data).id
    change = models.NodepoolUpdateFields(labelValue="h200")
    parsed(models.Nodepool, own.node_pools.update_nodepool(pool, change).data)
    parsed(models.GetNodepools200Response, own.node_pools.get_nodepools(limit=500).data)
    return str(cluster), str(pool)


def units(client: Any, models: Any, cluster: str, pool: str) -> None:
    """A department and a project are made, changed, listed and deleted."""
    own = client.organizations
    share = models.ResourcesNullable(
        nodePool=models.ResourcesNodePool(id=pool),
        gpu=models.NonNullResource(deserved=4, limit=8, overQuotaWeight=1),
    )
    body = models.DepartmentCreationRequest(name="a", clusterId=cluster, resources=[share])
    department = parsed(models.DepartmentForList, own.departments.create_department(body).data)
    rules = models.SchedulingRules(interactiveJobTimeLimitSeconds=3600)
    wanted = models.ProjectCreationRequest(
        name="p",
        clusterId=cluster,
        parentId=department.id,
        resources=[share],
        schedulingRules=rules,
    )
    made = own.projects.create_project(wanted).data
    back = parsed(models.ProjectCreationRequest, made)
    assert back.to_dict()["resources"][0]["gpu"] == share.to_dict()["gpu"]
    change = models.ProjectUpdateRequest(resources=[share], description="changed")
    assert own.projects.update_project(made["id"], change).data["description"] == "changed"
    less = models.ResourcesNullable(
        nodePool=share.node_pool, gpu=models.NonNullResource(deserved=1)
    )
    (row,) = own.projects.patch_project_resources(made["id"], [less]).data
    found = parsed(models.Resources, row)
    assert (found.gpu.deserved, found.gpu.limit) == (1, 8)
    (row,) = own.projects.update_project_resources(made["id"], [less]).data
    assert parsed(models.Resources, row).gpu.limit is None
    parsed(models.GetDepartments200Response, own.departments.get_departments(limit=500).data)
    assert own.projects.count_projects(filter_by=["name==p"]).data == {"count": 1}
    assert own.projects.delete_project(made["id"]).status_code == 202


def people(client: Any, models: Any, cluster: str) -> None:
    """A user, an access rule and a service account are made and read."""
    own = client.authentication_and_authorization
    user = models.UserCreationRequest1(email="alice@example.com")
    parsed(models.UserPostResponse, own.users.create_user(user).data)
    for row in own.users.get_users().data:
        parsed(models.User2, row)
    account = models.ServiceAccountCreationRequest(name="appliance")
    parsed(
        models.ServiceAccountPostResponse, own.service_accounts.create_service_account(account).data
    )
    for row in own.service_accounts.get_service_accounts().data:
        parsed(models.ServiceAccount, row)
    roles = [parsed(models.RoleV1, row) for row in own.roles.get_roles_v1().data]
    rule = models.AccessRuleCreationFields(
        subjectId="alice@example.com",
        subjectType="user",
        roleId=roles[0].id,
        scopeId=cluster,
        scopeType="cluster",
        clusterId=cluster,
    )
    made = parsed(models.AccessRule, own.access_rules.create_access_rule(rule).data)
    parsed(models.GetAccessRules200Response, own.access_rules.get_access_rules().data)
    parsed(models.AccessRuleById, own.access_rules.get_access_rule(made.id).data)
    assert own.access_rules.delete_access_rule(made.id).status_code == 204


def errors(client: Any, models: Any, cluster: str) -> None:
    """A conflict is an exception with the body of an error."""
    body = models.DepartmentCreationRequest(name="a", clusterId=cluster, resources=[])
    refused = import_module("runai.exceptions").ApiException
    try:
        client.organizations.departments.create_department(body)
    except refused as error:
        said = error
    parsed(models.Error, json.loads(said.body))
    assert said.status == 409


def main() -> None:
    """All calls."""
    models = import_module("runai.models")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        certificate(folder)
        with standing(folder, World(release="2.24", settles=1)) as stand_in:
            client = client_of(stand_in, folder)
            cluster, pool = clusters_and_pools(client, models)
            units(client, models, cluster, pool)
            people(client, models, cluster)
            errors(client, models, cluster)
            seen = len(stand_in.seen)
    sys.stdout.write(f"runapy {metadata.version('runapy')}: {seen} requests, all answers parsed\n")


if __name__ == "__main__":
    main()
