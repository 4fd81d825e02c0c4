"""Cheats by what makes pods: the templates of every kind."""

from tests.integration.cheat_parts import (
    GREEDY,
    MAKERS,
    NFS,
    SLIGHT,
    STOCK,
    THEIRS,
    UNJUDGED,
    Cheat,
    env,
    key_in_env,
    made_by,
    pod,
)

CHEATS: tuple[Cheat, ...] = (
    # Through what makes pods.
    *(
        made_by(kind, name, judge, template)
        for kind in MAKERS
        if kind not in UNJUDGED
        for name, judge, template in (
            ("a neighbour's queue", "appliance-queue", THEIRS),
            ("the stock scheduler", "appliance-scheduler", STOCK),
            ("all GPUs", "appliance-gpus", pod(container=env(value="all"))),
            ("files of others", "appliance-volumes", pod(volumes=[NFS])),
            ("the registry's key", "appliance-pull-secret", pod(container=key_in_env())),
            (
                "an adapter",
                "appliance-devices",
                pod(container={"resources": {"limits": {"rdma/fabric": "1"}}}),
            ),
            ("a request of 1 MiB", "appliance-sizes", pod(container=GREEDY)),
            (
                "a limit of 0, which is none",
                "appliance-sizes",
                pod(container={"resources": {"limits": {"memory": "0"}}}),
            ),
            ("50m of cpu", "appliance-sizes", pod(container=SLIGHT)),
            (
                "a request without a limit",
                "appliance-sizes",
                pod(container={"resources": {"requests": {"memory": "1Gi"}}}),
            ),
        )
    ),
)
