"""Request bodies for Run:ai, as in its documentation of 3.0.

Pages below docs.nvidia.com/run-ai/self-hosted/reference/rest-api/endpoints:
- organizations/node-pools (create, patch), organizations/departments and organizations/projects (create, update)
- authentication-and-authorization/access-rules/create-access-rule (a rule cannot be changed)

CPU is in millicores. Memory has ``units``: Mib, MB or GB; that MB means 10^6 bytes is uncertain. ``limit`` null: no limit.
``rank`` is new in 3.0. That an update replaces the whole list of resources is uncertain; it is sent whole.
"""

from collections.abc import Mapping

from appliance.adapters.runai import Document
from appliance.stages.scheduler.queues.manifest import number
from appliance.stages.scheduler.queues.runai import LABEL, LIMITS, Amounts, Pool, Rule, Unit
from appliance.stages.scheduler.site import Amount

MILLICORES, MB = 1000, 1000
"""Units of the API: millicores of a core, MB of a GB."""

Ids = Mapping[str, str]
"""The control plane's ids by name."""


def mark(site: str) -> str:
    """The word in the description of each department and project that this program created or adopted."""
    return f"appliance/site={site}"


def is_marked(found: Document, site: str) -> bool:
    """Whether a department or project belongs to the site."""
    return mark(site) in _description(found).split()


def pool_body(pool: Pool, cluster: str) -> Document:
    """A new node pool. Its label shows whose it is."""
    return {
        "name": pool.name,
        "labelKey": LABEL,
        "labelValue": pool.name,
        "clusterId": cluster,
        "schedulingConfiguration": _placement(pool, {}),
    }


def pool_change(pool: Pool, found: Document) -> Document:
    """A changed placement; other settings of the pool are kept."""
    return {"schedulingConfiguration": _placement(pool, found)}


def unit_body(unit: Unit, site: str, cluster: str, pools: Ids, parent: str | None) -> Document:
    """A new department or project. ``parent``: id of a project's department, None for Run:ai's default."""
    own: Document = {"name": unit.name, "clusterId": cluster, **_content(unit, site, pools, {})}
    return {**own, "parentId": parent} if parent else own


def unit_change(unit: Unit, site: str, pools: Ids, found: Document) -> Document:
    """A changed department or project. What the site does not describe is sent as it was found."""
    kept = {"nodeTypes": found["nodeTypes"]} if found.get("nodeTypes") else {}
    return {**_content(unit, site, pools, found), **kept}


def rule_body(rule: Rule, role: int, project: str, cluster: str) -> Document:
    """A new access rule in the scope of a project, by its id."""
    return {
        "subjectId": rule.subject,
        "subjectType": rule.kind,
        "roleId": role,
        "scopeId": project,
        "scopeType": "project",
        "clusterId": cluster,
    }


def _content(unit: Unit, site: str, pools: Ids, found: Document) -> Document:
    body: Document = {
        "description": _marked(found, site),
        "resources": [
            *(_entry(unit, name, pools[name], amounts) for name, amounts in unit.shares.items()),
            *(entry for entry in found.get("resources") or () if _is_other(entry, unit, pools)),
        ],
    }
    if unit.rules is not None:
        others = {
            key: value
            for key, value in (found.get("schedulingRules") or {}).items()
            if key not in LIMITS.values() and value is not None
        }
        body["schedulingRules"] = {**others, **unit.rules}
        body["defaultNodePools"] = list(unit.pools)
        body["enforceRunaiScheduler"] = True
    elif found:
        body["schedulingRules"] = found.get("schedulingRules") or {}
        body["defaultNodePools"] = found.get("defaultNodePools")
    return body


def _entry(unit: Unit, name: str, pool: str, amounts: Amounts) -> Document:
    cpu, memory = amounts["cpu"], amounts["memory"]
    return {
        "nodePool": {"id": pool, "name": name},
        "gpu": _amount(amounts["gpu"] or Amount(), 1),
        "cpu": _amount(cpu, MILLICORES) if cpu else None,
        "memory": {**_amount(memory, MB), "units": "MB"} if memory else None,
        "rank": unit.rank,
    }


def _amount(amount: Amount, unit: int) -> Document:
    return {
        "deserved": number(amount.quota * unit),
        "limit": None if amount.limit is None else number(amount.limit * unit),
        "overQuotaWeight": number(amount.weight),
    }


def _is_other(entry: Document, unit: Unit, pools: Ids) -> bool:
    """Whether this is the share of a pool that the site does not have."""
    pool = entry.get("nodePool") or {}
    own = {pools[name] for name in unit.shares if name in pools}
    return pool.get("id") not in own and pool.get("name") not in unit.shares


def _placement(pool: Pool, found: Document) -> Document:
    strategy = {"cpu": pool.placement, "gpu": pool.placement}
    return {**(found.get("schedulingConfiguration") or {}), "placementStrategy": strategy}


def _description(found: Document) -> str:
    return str(found.get("description") or "")


def _marked(found: Document, site: str) -> str:
    own = _description(found)
    if mark(site) in own.split():
        return own
    return f"{own} Managed by appliance: {mark(site)}".strip()
