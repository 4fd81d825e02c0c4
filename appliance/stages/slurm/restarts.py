"""What stage slurm restarts."""

from appliance.models.facts import HostFacts
from appliance.models.site import Host
from appliance.stages.context import Variables
from appliance.stages.restart import Restart

KEY = "/etc/munge/munge.key"
PMIX = "libpmix-dev"
"""PMIx's package in Debian and Ubuntu; elsewhere, Slurm's own package depends on the library."""
CONFIGURATION = (
    *("/etc/slurm/slurm.conf", "/etc/slurm/gres.conf", "/etc/slurm/cgroup.conf"),
    "/etc/slurm/topology.conf",
)
CLUSTER = frozenset(
    {
        *("slurm_cgroup_plugin", "slurm_cluster", "slurm_constrain", "slurm_controller_address"),
        *("slurm_controller_name", "slurm_devices", "slurm_memory_per_cpu_mib", "slurm_nodes"),
        *("slurm_partitions", "slurm_switches"),
    }
)


def _lacks_pmix(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    """Return whether the stage was deployed before it installed PMIx, which slurmd loads when it starts."""
    receipt = facts.receipts.get("slurm") if facts else None
    return bool(receipt and "slurmd" in receipt.versions and PMIX not in receipt.versions)


RESTARTS = (
    Restart("munge", (KEY,), frozenset({"slurm_munge_key"})),
    Restart(
        "mariadb",
        (
            "/etc/mysql/mariadb.conf.d/60-appliance-slurm.cnf",
            "/etc/my.cnf.d/60-appliance-slurm.cnf",
        ),
    ),
    Restart(
        "slurmdbd",
        ("/etc/slurm/slurmdbd.conf", KEY),
        frozenset(
            {
                *("slurm_controller_address", "slurm_controller_name", "slurm_database_password"),
                "slurm_munge_key",
            }
        ),
    ),
    Restart("slurmctld", CONFIGURATION, CLUSTER),
    Restart(
        "slurmd",
        (
            *CONFIGURATION,
            "/etc/slurm/plugstack.conf.d/pyxis.conf",
            "/usr/local/lib/slurm/spank_pyxis.so",
        ),
        CLUSTER | {"slurm_containers"},
        by=("slurm_containers",),
        when=_lacks_pmix,
    ),
)
