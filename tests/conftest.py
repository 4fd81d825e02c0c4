"""What all tests share: the same random examples in each CI run, and how tests are spread over processes."""

import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from appliance.adapters import leftovers
from tools.published import BUILT, built, write

SHARED_RACK = {
    "test_alerts": "deployed",
    "test_benchmarks": "deployed",
    "test_boards": "deployed",
    "test_deploy": "deployed",
    "test_mig": "deployed",
    "test_slurm_containers": "deployed",
    "test_told": "deployed",
    "test_user_at_work": "deployed",
    "test_accepted": "hurt",
    "test_drift": "hurt",
    "test_faults": "hurt",
    "test_hostile_host": "hurt",
    "test_night": "hurt",
    "test_planted_changes": "hurt",
    "test_restarted": "hurt",
    "test_watch": "hurt",
}
"""Modules that work on one deployed rack. Those that hurt it get one of their own."""

SHARED_CLUSTER = {
    "test_kubernetes": "cluster",
    "test_node_assign": "cluster",
    "test_pods_measured": "cluster",
}
"""Modules that follow each other on one rack with a cluster (tests/integration/kept.py)."""

ON_API_SERVER = (
    "test_etcd_full",
    "test_limits",
    "test_members",
    "test_pods_at_work",
    "test_queues",
    "test_tenants",
)
"""Modules that need an API server alone. The first compiles it, where that was not done, and the others would wait."""

BY_PARAMETER = ("test_molecule", "test_own_site")
"""Modules with a rack for each parameter."""

LONGEST_FIRST = (
    # Compiles Kubernetes first. The next is of make cluster.
    "test_cluster_smoke",
    "cluster",
    "deployed",
    "test_own_site[hpc-debian12-root]",
    "test_own_site[balanced-debian13-user]",
    "hurt",
    "api-server",
    "test_maker_repositories",
    "test_host_faults",
    "test_foreign_playbook",
    "test_killed",
    "test_gpu_stage",
    "test_own_site[cost-efficient-debian12]",
    "test_secrets",
)
"""Racks by the time their tests take: what begins last must be short. The first three each build another image."""

# Ansible's library makes a folder below HOME when it is imported; whose tests these are may have none.
os.environ.setdefault("ANSIBLE_LOCAL_TEMP", tempfile.gettempdir())

# The collection is imported as the package it is, by Ansible's own loader: two ways to find it would not agree.
import_module("ansible.plugins.loader").init_plugin_loader(
    [str(Path(__file__).parents[1] / "playbooks/collections")]
)

# Processes of a test run are given the width of its terminal; programs under test write into pipes.
os.environ.pop("COLUMNS", None)

# No test is wrong for being slow: machines differ.
# Examples are kept nowhere: a checkout may be of another user.
settings.register_profile("here", deadline=None, database=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


class Racks(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Tests of one rack run in one process and in their order; unit tests fill the gaps.

    xdist's own groups are marks that it adds to ``_nodeid``, which pytest 9.2 no longer reads.
    """

    def _split_scope(self, nodeid: str) -> str:
        return rack_of(nodeid)


def pytest_configure(config: pytest.Config) -> None:
    """What is built and in no repository is there before any test looks for it."""
    root = Path(__file__).parents[1]
    if not hasattr(config, "workerinput") and not all((root / name).exists() for name in BUILT):
        write(root, built())


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Racks:
    """Called by pytest-xdist where tests are spread over processes."""
    config.option.loadscopereorder = False
    return Racks(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest racks first, unit tests last."""
    order = {name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(
        key=lambda item: (
            "integration/" not in item.nodeid,
            order.get(rack_of(item.nodeid), len(order)),
        )
    )


def rack_of(nodeid: str) -> str:
    """The rack a test works on; a Molecule scenario has its own, and unit tests share what their module sets up."""
    module = nodeid.partition("::")[0]
    name = Path(module).stem
    if "integration/" not in module:
        return module
    if name in BY_PARAMETER:
        return f"{name}[{nodeid.partition('[')[2]}"
    if name in ON_API_SERVER:
        return "api-server"
    return {**SHARED_RACK, **SHARED_CLUSTER}.get(name, name)


@pytest.fixture
def hears_hangups() -> Iterator[None]:
    """Programs inherit which signals are ignored, and nohup ignores one."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(autouse=True)
def process_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a test ends the program, the tests after it in this process do not end with it."""
    monkeypatch.setattr(leftovers, "_swept", threading.Event())
