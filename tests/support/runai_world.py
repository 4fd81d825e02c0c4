"""A site of Run:ai and a control plane for it, as several test modules use them."""

from dataclasses import dataclass, field
from pathlib import Path

from appliance.actions.kubernetes import queues as action
from appliance.actions.sites.opening import Target
from appliance.adapters.kubernetes import KubernetesApi
from appliance.adapters.runai import Account, Runai
from appliance.models.queue_plan import QueuePlan
from appliance.stages.queues.runai.apply import Applying
from appliance.stages.queues.runai.plan import Prepared, plan
from tests.support.fake_kubernetes import Api
from tests.support.impossible_queues import BASE, furnish
from tests.support.runai_answers import SECRET, Answers

HEAD = """
  runai_client_secret: {file: secrets/runai_client_secret}
software: {kai: "0.18"}
scheduler:
  kind: runai
  runai: {url: https://runai.example.com, client: appliance}
"""

TREE = """
  node_pools:
    - {name: interactive, hosts: [gpu-1], placement: spread}
  departments:
    - name: science
      priority: 200
      shares:
        - {gpu: {quota: 20, limit: 24}, cpu: {quota: 200}}
        - {pool: interactive, gpu: {quota: 8}}
  projects:
    - name: lattice
      department: science
      users: [alice@example.com]
      groups: [/vision]
      queues:
        - {name: build, work: build, pool: interactive, gpu: {quota: 4}, time_limit: 8h, idle_limit: 30m}
        - {name: train, gpu: {quota: 16, limit: 24, weight: 2}, cpu: {quota: 200}, memory: {quota: 500}}
    - name: solo
      priority: 50
      queues: [{name: train, gpu: {quota: 4}}]
"""

PLAIN = """
  departments: [{name: research}]
  projects:
    - name: team
      department: research
      users: [alice]
      queues: [{name: train, gpu: {quota: 8, limit: 32}}]
"""


@dataclass
class RunaiWorld:
    """``api``: the cluster, for labels of hosts."""

    server: Answers
    api: Api
    folder: Path
    now: float = 0.0
    waited: list[float] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def write(self, tree: str, head: str = HEAD) -> None:
        """The site's file, with this section scheduler."""
        furnish(self.folder)
        secret = self.folder / "secrets/runai_client_secret"
        secret.touch(mode=0o600)
        secret.write_text(SECRET)
        (self.folder / "site.yml").write_text(BASE + head.lstrip("\n") + tree)

    def client(self) -> Runai:
        """A new client, as each command has one."""
        account = Account(self.server.url, "appliance", SECRET)
        return Runai(account, sleep=self.waited.append, clock=lambda: self.now)

    def prepare(self, client: Runai) -> tuple[Prepared, Applying]:
        loaded, wanted = action.describe(Target(self.folder))
        cluster = None
        if loaded.site.scheduler and loaded.site.scheduler.node_pools:
            cluster = KubernetesApi(self.folder / "kubeconfig", sleep=self.waited.append)
        prepared = plan(loaded.site, wanted, client, cluster)

        def sleep(seconds: float) -> None:
            self.waited.append(seconds)
            self.now += seconds

        return prepared, Applying(
            prepared, wanted, client, cluster, patience=20, sleep=sleep, clock=lambda: self.now
        )

    def plan(self) -> QueuePlan:
        with self.client() as client:
            return self.prepare(client)[0].plan

    def apply(self) -> int:
        with self.client() as client:
            return self.prepare(client)[1].run(self.lines.append)
