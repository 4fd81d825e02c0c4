"""Why hosts are freed of work."""

from enum import StrEnum


class Why(StrEnum):
    """What a host is drained for; kept with the host, so that the next run knows a drain of ours.

    Each begins with the word by which the stages know drains they may take back.
    """

    DRIVER = "appliance: the driver is changed"
    MIG = "appliance: GPUs are about to be divided"
    MOVE = "appliance: the host changes its owner"
    UPGRADE = "appliance: Kubernetes is upgraded"


CONTRADICTS = "appliance: facts contradict what was accepted: "
"""How the reason begins where the engine drained a host for that; no host takes it back for itself."""
