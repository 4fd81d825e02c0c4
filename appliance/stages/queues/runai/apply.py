"""Applies a plan to Run:ai, in order.

Each object is read again before it is changed, and compared by name after a request whose result is unknown. Whatever is
interrupted is therefore finished by the next run, and nothing is created twice.
"""

import time
from collections.abc import Callable, Mapping

from appliance.adapters.kubernetes import Cluster
from appliance.adapters.runai import Document, Find, Runai, RunaiFailed
from appliance.models.queue_plan import Change, Step
from appliance.stages.queues.changes import Progress, relabel
from appliance.stages.queues.runai.bodies import (
    is_marked,
    pool_body,
    pool_change,
    rule_body,
    unit_body,
    unit_change,
)
from appliance.stages.queues.runai.compare import is_ours, pool_differences, unit_differences
from appliance.stages.queues.runai.plan import (
    DEPARTMENT,
    NODE,
    POOL,
    PROJECT,
    RULE,
    Prepared,
    name_of,
    parent_of,
)
from appliance.stages.queues.runai.there import (
    DELETING,
    DEPARTMENTS,
    POOLS,
    PROJECTS,
    RULES,
    one_named,
    phase_of,
    rules_of,
    work_of,
)
from appliance.stages.scheduler.queues.rendered import Rendered
from appliance.stages.scheduler.queues.runai import Pool, Rule, Unit
from appliance.text import plural

PATIENCE_S = 600.0
"""Run:ai finishes accepted requests (202) and creates namespaces within seconds, if the cluster is connected."""
POLL_S = 2.0

PLACES = {
    POOL: (POOLS, "nodepools"),
    DEPARTMENT: (DEPARTMENTS, "departments"),
    PROJECT: (PROJECTS, "projects"),
}
"""Path and key of the lists by kind."""
BUSY = frozenset({"Creating", "Initializing", "Updating", "NotReady"})
"""Phases of an object whose cluster has not finished yet."""
ONE_REQUEST = frozenset({400, 404, 409, 422})
"""Refusals of one object, after which others can still be changed."""
ACCEPTED = 202
CONNECTED = "check that Run:ai shows the cluster as Connected, then run this command again"
AGAIN = "show what differs now: appliance queue plan"


class Applying:
    """One run of a plan. ``cluster``: for labels of hosts."""

    def __init__(
        self,
        prepared: Prepared,
        rendered: Rendered,
        client: Runai,
        cluster: Cluster | None,
        *,
        patience: float = PATIENCE_S,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan = prepared.plan
        self._site = prepared.plan.site
        self._rendered = rendered
        self._client = client
        self._cluster = cluster
        self._there = prepared.there
        self._patience, self._sleep, self._clock = patience, sleep, clock
        wanted = prepared.wanted
        self._pools = {pool.name: pool for pool in wanted.pools}
        self._units = {
            (unit.kind, unit.name): unit for unit in (*wanted.departments, *wanted.projects)
        }
        self._kept: set[str] = set()
        self._accepted: set[tuple[str, str]] = set()
        self._rules = {name_of(rule): rule for rule in (*prepared.there.rules, *wanted.rules)}
        self._ids = {
            POOL: _ids(prepared.there.pools),
            DEPARTMENT: _ids(prepared.there.departments),
            PROJECT: _ids(prepared.there.projects),
        }

    def run(self, progress: Progress) -> int:
        """Carry out all steps and return their number. The refusal of one project or member does not stop the others.

        Raises RunaiFailed with the first failure, or if Run:ai does not finish within the deadline.
        """
        failed: list[RunaiFailed] = []
        waiting: list[Change] = []
        for change in self._plan.work:
            if failed and self._holds(change):
                continue
            if waiting and (change.kind, change.step is Step.DELETE) != (
                waiting[-1].kind,
                waiting[-1].step is Step.DELETE,
            ):
                self._settle(waiting)
                waiting = []
            try:
                self._do(change)
            except RunaiFailed as error:
                if error.status not in ONE_REQUEST or change.kind not in (PROJECT, RULE):
                    raise
                failed.append(error)
                if change.kind == RULE:
                    self._kept.add(self._rules[change.name].project)
                continue
            progress(f"{change.step.value:<8} {change.kind} {change.title}")
            if change.kind in PLACES:
                waiting.append(change)
        self._settle(waiting)
        if failed:
            more = f"; and {plural(len(failed) - 1, 'more')}" if failed[1:] else ""
            raise RunaiFailed(f"{failed[0].message}{more}", failed[0].hint, failed[0].status)
        return len(self._plan.work)

    def _holds(self, change: Change) -> bool:
        """Whether it deletes what a failed step still needs: the project of a member that was not removed, or a department or pool."""
        if change.step is not Step.DELETE or change.kind == RULE:
            return False
        return change.kind != PROJECT or change.name in self._kept

    def _do(self, change: Change) -> None:
        if change.kind == NODE:
            assert self._cluster is not None
            relabel(change, self._rendered, self._cluster)
        elif change.kind == RULE:
            self._rule(change, self._rules[change.name])
        elif change.step is Step.DELETE:
            self._delete(change)
        elif change.kind == POOL:
            self._pool(change, self._pools[change.name])
        else:
            self._unit(change, self._units[change.kind, change.name])

    def _pool(self, change: Change, pool: Pool) -> None:
        doing = f"{change.step.value} node pool {pool.name}"
        found = self._found(change)
        if found is None:
            found, _ = self._create(
                POOLS,
                doing,
                pool_body(pool, self._there.cluster),
                lambda: one_named(self._client, POOLS, "nodepools", self._there.cluster, pool.name),
            )
        self._ids[POOL][pool.name] = _id(found, doing)
        if not is_ours(found, pool.name):
            raise RunaiFailed(f"{doing}: a pool of this name selects hosts by another label", AGAIN)
        if pool_differences(pool, found):
            path = f"{POOLS}/{found['id']}"
            self._change(change, "PATCH", path, doing, pool_change(pool, found))

    def _unit(self, change: Change, unit: Unit) -> None:
        doing = f"{change.step.value} {unit.kind.lower()} {unit.name}"
        path, key = PLACES[unit.kind]
        pools, cluster = self._ids[POOL], self._there.cluster
        found, is_new = self._found(change), False
        if found is None:
            parent = self._parent(unit, doing)
            found, is_new = self._create(
                path,
                doing,
                unit_body(unit, self._site, cluster, pools, parent),
                lambda: one_named(self._client, path, key, cluster, unit.name),
            )
        self._ids[unit.kind][unit.name] = _id(found, doing)
        if is_new:
            return
        said = unit_differences(unit, found, pools)
        if not is_marked(found, self._site) and said:
            raise RunaiFailed(
                f"{doing}: another client created it, and it differs: {said[0]}", AGAIN
            )
        if said or not is_marked(found, self._site):
            body = unit_change(unit, self._site, pools, found)
            self._change(change, "PUT", f"{path}/{found['id']}", doing, body)

    def _parent(self, unit: Unit, doing: str) -> str | None:
        if unit.kind != PROJECT:
            return None
        if unit.parent is None:
            own = parent_of(unit, self._there.departments)
            return str(own["id"]) if own else None
        if unit.parent not in self._ids[DEPARTMENT]:
            raise RunaiFailed(f"{doing}: department {unit.parent} does not exist", AGAIN)
        return self._ids[DEPARTMENT][unit.parent]

    def _rule(self, change: Change, rule: Rule) -> None:
        doing = f"{change.step.value} access rule of {change.title}"
        if change.step is Step.DELETE:
            for number in self._there.rules[rule]:
                self._client.change("DELETE", f"{RULES}/{number}", doing)
            return
        project = self._ids[PROJECT].get(rule.project)
        if project is None:
            raise RunaiFailed(f"{doing}: project {rule.project} does not exist", AGAIN, 404)

        def find() -> Document | None:
            known = rules_of(self._client, self._there.role, {project: rule.project}, project)
            return next(({"id": number} for own, number in known if own == rule), None)

        body = rule_body(rule, self._there.role, project, self._there.cluster)
        self._create(RULES, doing, body, find)

    def _create(self, path: str, doing: str, body: Document, find: Find) -> tuple[Document, bool]:
        """As ``Runai.create``; what is accepted with 202 and no object is awaited. Raises RunaiFailed at the deadline."""
        found, is_new = self._client.create(path, doing, body, find)
        if not is_new or "id" in found:
            return found, is_new
        end = self._clock() + self._patience
        while (made := find()) is None:
            if self._clock() >= end:
                said = (
                    f"{doing}: Run:ai accepted it, but it does not exist after {self._patience:g} s"
                )
                raise RunaiFailed(said, CONNECTED)
            self._sleep(POLL_S)
        return made, True

    def _change(self, change: Change, method: str, path: str, doing: str, body: Document) -> None:
        if self._client.change(method, path, doing, body).status == ACCEPTED:
            self._accepted.add((change.kind, change.name))

    def _delete(self, change: Change) -> None:
        path, _ = PLACES[change.kind]
        doing = f"delete {change.kind} {change.name}"
        found = self._found(change)
        if found is None or phase_of(found) in DELETING:
            return
        if change.kind == PROJECT and (work := work_of(self._client, found)):
            raise RunaiFailed(f"{doing}: workloads started meanwhile: {work}", AGAIN)
        self._client.change("DELETE", f"{path}/{found['id']}", doing)

    def _found(self, change: Change) -> Document | None:
        """Return the current object; None if the plan creates it, or if it was deleted."""
        identity = self._ids[change.kind].get(change.name)
        if identity is None:
            return None
        return self._client.get(
            f"{PLACES[change.kind][0]}/{identity}", f"read {change.kind} {change.name}"
        )

    def _settle(self, changes: list[Change]) -> None:
        """Wait until Run:ai has finished these objects, all of one kind. Raises RunaiFailed at the deadline."""
        end = self._clock() + self._patience
        left = changes
        while left:
            known = self._phases(left)
            left = [c for c in left if self._is_busy(c, known)]
            if not left:
                return
            if self._clock() >= end:
                raise self._late(left, known)
            self._sleep(POLL_S)

    def _phases(self, changes: list[Change]) -> Mapping[str, Document]:
        """Return objects of a kind by id: with one request each if they are few, else with a list."""
        path, key = PLACES[changes[0].kind]
        ids = [self._ids[c.kind][c.name] for c in changes if c.name in self._ids[c.kind]]
        if len(ids) <= FEW:
            read = ((one, self._client.get(f"{path}/{one}", f"read {key}")) for one in ids)
            return {one: found for one, found in read if found is not None}
        within = {"filterBy": f"clusterId=={self._there.cluster}", "sortBy": "name"}
        listed = self._client.every(path, key, f"list {key}", {**within, "sortOrder": "asc"})
        return {str(found.get("id")): found for found in listed}

    def _is_busy(self, change: Change, known: Mapping[str, Document]) -> bool:
        found = known.get(self._ids[change.kind].get(change.name, ""))
        if change.step is Step.DELETE:
            return found is not None and phase_of(found) != "Deleted"
        if found is None:
            return False
        return phase_of(found) in BUSY or self._is_pending(change, found)

    def _is_pending(self, change: Change, found: Document) -> bool:
        """Whether Run:ai has accepted a change of it (202), and not carried it out."""
        if (change.kind, change.name) not in self._accepted:
            return False
        if change.kind == POOL:
            return bool(pool_differences(self._pools[change.name], found))
        unit = self._units[change.kind, change.name]
        return bool(unit_differences(unit, found, self._ids[POOL])) or not is_marked(
            found, self._site
        )

    def _late(self, left: list[Change], known: Mapping[str, Document]) -> RunaiFailed:
        first = left[0]
        found = known.get(self._ids[first.kind].get(first.name, ""), {})
        status = found.get("status")
        said = (status.get("phaseMessage") if isinstance(status, dict) else None) or ""
        more = f"; and {plural(len(left) - 1, 'more')}" if left[1:] else ""
        reason = f" ({said})" if said else ""
        now = phase_of(found) or "not deleted"
        if first.step is not Step.DELETE and now not in BUSY:
            now = f"{phase_of(found) or 'there'}, and not changed,"
        return RunaiFailed(
            f"{first.kind} {first.name} is {now} after {self._patience:g} s{reason}{more}",
            CONNECTED,
        )


FEW = 5
"""Maximum number of objects read one by one."""


def _ids(found: Mapping[str, Document]) -> dict[str, str]:
    return {name: str(one["id"]) for name, one in found.items() if "id" in one}


def _id(found: Document, doing: str) -> str:
    identity = found.get("id")
    if not isinstance(identity, str | int):
        raise RunaiFailed(f"{doing}: the answer has no id", "check the release of Run:ai")
    return str(identity)
