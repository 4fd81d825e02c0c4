"""What stage slurm restarts."""

from appliance.stages.restart import Restart

KEY = "/etc/munge/munge.key"
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
    ),
)
