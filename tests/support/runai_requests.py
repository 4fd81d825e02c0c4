"""Every request that a tree in Run:ai needs, as JSON lines: method, path, body. For a judge that knows the API.

python -m tests.support.runai_requests > requests.json
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.fake_kubernetes import kubeconfig
from tests.support.fake_kubernetes import serving as cluster
from tests.support.runai_answers import serving
from tests.support.runai_world import PLAIN, TREE, RunaiWorld

Request = tuple[str, str, object]


def requests(folder: Path) -> Iterator[Request]:
    """A tree that is created, changed by hand and reverted, and then replaced by another."""
    with serving() as server, cluster() as api:
        for host in ("gpu-1", "gpu-2", "gpu-3", "gpu-4", "head"):
            api.put(f"/api/v1/nodes/{host}", {"metadata": {"name": host, "labels": {}}})
        kubeconfig(folder, api.url)
        world = RunaiWorld(server, api, folder)
        world.write(TREE)
        world.apply()
        server.projects["lattice"]["resources"][0]["gpu"]["deserved"] = 1
        server.lists["/api/v1/org-unit/departments"][1]["resources"][0]["rank"] = "High"
        server.lists["/api/v1/node-pools"][1]["schedulingConfiguration"] = {}
        world.apply()
        world.write(PLAIN)
        world.apply()
        yield from server.seen


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for request in requests(Path(made)):
            sys.stdout.write(json.dumps(request) + "\n")
