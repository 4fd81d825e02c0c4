"""One package per stage of a deployment. This page shows their order.

A package holds all there is to its stage but the role: ``stage`` (its declaration), ``site`` (its section of the site),
``rules`` (what a schema cannot say of it), ``variables`` (what its role is given), ``collect`` (what the probe asks; standard
library only), ``facts`` (what comes of that), ``ids`` (how its checks are called), ``checks``, ``alerts``. What has several of a kind has a package of that name.
Lists of all stages, rules, checks and alerts are made of these parts by their names.
"""

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

OF_HOSTS = (
    "base",
    "gpu",
    "mig",
    "fabric",
    "storage",
    "kubernetes",
    "slurm",
    "scheduler",
    "workloads",
    "observe",
    "limits",
    "backup",
)
"""Stages of hosts, in the order in which they are listed. Each starts after those that its declaration names."""
OF_CLUSTER = ("runai", "queues", "validate")
"""Stages of the cluster as a whole, which change no host. Each starts after all stages before it."""
NAMES = (*OF_HOSTS, *OF_CLUSTER)


def parts(part: str) -> Iterator[ModuleType]:
    """Return the modules of this name of all stages that have one, in the order of the stages."""
    for name in NAMES:
        module = f"{__name__}.{name}.{part}"
        if find_spec(module):
            yield import_module(module)
