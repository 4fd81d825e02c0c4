"""A site whose tree ``appliance queue`` writes to the stand-in, as several test modules use it."""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from appliance.cli import main as program
from tests.support.fake_kubernetes import kubeconfig
from tests.support.fake_kubernetes import serving as cluster
from tests.support.impossible_queues import BASE, furnish
from tests.support.runai.server import StandIn, standing
from tests.support.runai.tls import certificate
from tests.support.runai.user import User
from tests.support.runai.world import ADMINISTRATOR, World

HEAD = """
  runai_client_secret: {{file: secrets/runai_client_secret}}
software: {{kai: "0.18"}}
scheduler:
  kind: runai
  runai: {{url: "{url}", ca: cert.pem, client: "{client}", cluster: rack, role: Viewer}}
"""
TREE = """
  departments: [{name: research}]
  projects:
    - name: team
      department: research
      users: [alice]
      queues: [{name: train, gpu: {quota: 8, limit: 32}}]
    - name: other
      department: research
      queues: [{name: train, gpu: {quota: 4}}]
"""
POOLED = f"""
  node_pools: [{{name: interactive, hosts: [gpu-1], placement: spread}}]{TREE}"""
HOSTS = ("gpu-1", "gpu-2", "gpu-3", "gpu-4", "head")


@dataclass
class Site:
    """The folder of the site, its control plane, the head of its file, and ID and secret of its service account."""

    folder: Path
    stand_in: StandIn
    user: User
    head: str
    account: tuple[str, str]

    def write(self, tree: str) -> None:
        """The site's file with this tree."""
        (self.folder / "site.yml").write_text(BASE + self.head.lstrip("\n") + tree)

    def names(self, kind: str) -> Counter[str]:
        """How often each name is there; of access rules, each subject and scope."""
        rows = [stored.body for stored in self.stand_in.world.tables[kind].values()]
        if kind == "access-rules":
            scoped = [row for row in rows if row["scopeType"] == "project"]
            return Counter(f"{row['subjectId']} {row['scopeName']}" for row in scoped)
        return Counter(row["name"] for row in rows)


@contextmanager
def organised(folder: Path, world: World | None = None) -> Iterator[Site]:
    """A registered and connected cluster, hosts with nodes, and a service account for ``TREE``."""
    furnish(folder)
    certificate(folder)
    with standing(folder, world or World()) as stand_in, cluster() as api:
        for host in HOSTS:
            api.put(f"/api/v1/nodes/{host}", {"metadata": {"name": host, "labels": {}}})
        kubeconfig(folder, api.url)
        user = User(stand_in, folder).as_administrator()
        own = user.cluster("rack")
        path = f"/api/v1/clusters/{own}/cluster-install-info?version=3.0.20"
        stand_in.world.heartbeat(own, user.good("GET", path)["bootstrapToken"], "3.0.20")
        made = user.good("POST", "/api/v1/service-accounts", {"name": "appliance"})
        roles = user.good("GET", "/api/v2/authorization/roles")["roles"]
        (number,) = [row["id"] for row in roles if row["name"] == ADMINISTRATOR]
        rule = {"subjectId": made["clientId"], "subjectType": "service-account", "roleId": number}
        scope = {"scopeType": "cluster", "scopeId": own}
        user.good("POST", "/api/v1/authorization/access-rules", rule | scope)
        secret = folder / "secrets/runai_client_secret"
        secret.touch(mode=0o600)
        secret.write_text(made["clientSecret"])
        head = HEAD.format(url=stand_in.url, client=made["clientId"])
        found = Site(folder, stand_in, user, head, (made["clientId"], made["clientSecret"]))
        found.write(TREE)
        yield found


def ran(site: Site, verb: str, *words: str) -> int:
    """Exit code of ``appliance queue``."""
    where = [
        "--site",
        os.fspath(site.folder),
        "--kubeconfig",
        os.fspath(site.folder / "kubeconfig"),
    ]
    before, sys.argv = sys.argv, ["appliance", "queue", verb, *where, *words]
    try:
        program.main()
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        sys.argv = before
    raise AssertionError("the program ends by itself")
