"""What ``appliance queue apply`` writes to the stand-in, read back by ``runapy``, NVIDIA's own client. By hand:

    python -m venv judge && judge/bin/pip install runapy==1.224.0
    python -m tests.support.runai.read_back judge/bin/python

The first process writes a tree, and starts this file in the environment of runapy, which has nothing of the program. Each field of
each object that was created is compared with the field that runapy's models return. runapy 1.224.0 is of product 2.24: fields and
paths that 3.0 added are not compared, and are listed.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

NEW = frozenset({"resources.rank"})
"""Fields of 3.0 that runapy 1.224.0 does not have."""
TREE = """
  sharing: unenforced
  node_pools: [{name: interactive, hosts: [gpu-1], placement: spread}]
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
        - {name: train, gpu: {quota: 16, limit: 24, weight: 2}, cpu: {quota: 200}, memory: {quota: 500}, idle_limit: 1h}
    - name: solo
      priority: 50
      queues: [{name: train, gpu: {quota: 2.5}}]
"""
LISTS = {
    "node-pools": ("node_pools", "get_nodepools", "nodepools", "Nodepool"),
    "departments": ("departments", "get_departments", "departments", "DepartmentForList"),
    "projects": ("projects", "get_projects", "projects", "ProjectCreationRequest"),
}
"""Group, call, key of the list, and the model of its entries.

runapy names two schemas Project, and its list of projects takes the wrong one (metadata, current): the model of a creation has the
same fields as an entry.
"""


def read(url: str, authority: str, client: str, secret: str) -> dict[str, Any]:
    """All objects as runapy's models return them; runs in its environment."""
    configuration = import_module("runai.configuration").Configuration(
        client_id=client,
        client_secret=secret,
        runai_base_url=url,
        ssl_ca_cert=authority,
        auto_refresh_token=False,
        retry_enabled=False,
    )
    made = import_module("runai.api_client").ApiClient(configuration)
    api, models = (
        import_module("runai.runai_client").RunaiClient(made),
        import_module("runai.models"),
    )
    found: dict[str, Any] = {"release": metadata.version("runapy")}
    for kind, (group, call, key, name) in LISTS.items():
        rows = getattr(getattr(api.organizations, group), call)(limit=500).data[key]
        found[kind] = [_plain(getattr(models, name), row) for row in rows]
    rules = api.authentication_and_authorization.access_rules.get_access_rules(limit=500).data
    found["access-rules"] = [_plain(models.AccessRule, row) for row in rules["accessRules"]]
    return found


def _plain(model: Any, row: Any) -> Any:
    return json.loads(json.dumps(model.from_dict(row).to_dict(), default=str))


def differences(sent: Any, back: Any, where: str = "", field: str = "") -> Iterator[str]:
    """Fields that were sent and came back otherwise; ``field``: the same without numbers of entries."""
    if field in NEW:
        return
    if isinstance(sent, dict) and isinstance(back, dict):
        for key, value in sent.items():
            inner = f"{field}.{key}" if field else key
            yield from differences(value, back.get(key), f"{where}.{key}", inner)
    elif isinstance(sent, list) and isinstance(back, list) and len(sent) == len(back):
        for i, (one, other) in enumerate(zip(sent, back, strict=True)):
            yield from differences(one, other, f"{where}[{i}]", field)
    elif sent != back:
        yield f"{where}: sent {sent!r}, read {back!r}"


def fields(sent: Any, field: str = "") -> Iterator[str]:
    """Every field with a value that is no container."""
    if isinstance(sent, dict):
        for key, value in sent.items():
            yield from fields(value, f"{field}.{key}" if field else key)
    elif isinstance(sent, list):
        for value in sent:
            yield from fields(value, field)
    else:
        yield field


def key_of(kind: str, row: dict[str, Any]) -> tuple[Any, ...]:
    """What identifies an object: its name, of a rule its subject and scope."""
    rule = kind == "access-rules"
    return (row["subjectId"], row["scopeId"]) if rule else (row["name"],)


def compared(judge: str, folder: Path) -> tuple[list[str], list[str], str]:
    """Differences, the fields that were compared by kind, and the release of runapy."""
    from appliance.adapters import process
    from tests.support.runai.organisation import organised, ran

    with organised(folder) as site:
        site.write(TREE)
        before = len(site.stand_in.seen)
        if ran(site, "apply", "--yes"):
            return ["queue apply failed"], [], ""
        sent = [one for one in site.stand_in.seen[before:] if one.method == "POST" and one.body]
        # runapy logs in as an application, which 3.0 no longer has.
        site.stand_in.world.release = "2.24"
        account = json.dumps([site.stand_in.url, str(folder / "cert.pem"), *site.account])
        answer = process.run([judge, __file__, "--read"], input=account, check=False)
        if answer.returncode:
            return [answer.stderr.strip()], [], ""
    back = json.loads(answer.stdout)
    found: list[str] = []
    known: set[str] = set()
    for one in sent:
        kind = one.path.rsplit("/", 1)[1]
        if kind not in back:
            continue
        rows = [row for row in back[kind] if key_of(kind, row) == key_of(kind, one.body)]
        where = f"{kind} {' '.join(key_of(kind, one.body))}"
        if len(rows) != 1:
            found.append(f"{where}: {len(rows)} objects")
            continue
        found += differences(one.body, rows[0], where)
        known |= {f"{kind}: {name}" for name in fields(one.body) if name not in NEW}
    return found, sorted(known), str(back["release"])


def main() -> None:
    """Either half."""
    if sys.argv[1:] == ["--read"]:
        sys.stdout.write(json.dumps(read(*json.loads(sys.stdin.read()))))
        return
    with tempfile.TemporaryDirectory() as name:
        found, known, release = compared(sys.argv[1], Path(name))
    lines = [*found, *known, f"runapy {release}: {len(known)} fields, {len(found)} differences"]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.exit(1 if found or not known else 0)


if __name__ == "__main__":
    main()
