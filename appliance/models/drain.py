"""Reasons for draining hosts."""

from enum import StrEnum


class Why(StrEnum):
    """The reason for a drain; stored with the host, so that the next run recognizes it.

    Each begins with the word by which the stages recognize drains that they may end.
    """

    DRIVER = "appliance: the driver is changed"
    MIG = "appliance: GPUs are about to be divided"
    MOVE = "appliance: the host changes its owner"
    UPGRADE = "appliance: Kubernetes is upgraded"


HEALTH = "appliance: health: "
"""Prefix of the reason for a drain by the host's own watch, which ends it. The id of a check follows."""
CONTRADICTS = "appliance: facts contradict what was accepted: "
"""Prefix of the reason for a drain by the engine; a host never ends such a drain itself."""
