"""Results that the program adds to those of checks, with ids of their own."""

from dataclasses import dataclass

REACHABLE = "host.reachable"
RECEIPTS = "host.receipts"
CONTROLLER = "bmc.reachable"
STAGE = "stage."
"""Prefix of ids of results about a whole stage; its name follows."""


@dataclass(frozen=True)
class Beside:
    """The meaning of an id, for ``appliance explain``."""

    id: str
    title: str
    explain: str


BESIDE = (
    Beside(
        REACHABLE,
        "The host answers",
        "One SSH connection to each host with its pinned host key. A host that does not answer is one failure; its "
        "consequences are listed under it. Usual causes: power, cable, address or firewall; no SSH server; a host that "
        "hangs; a host key that changed, by a reinstallation or because another machine answers.",
    ),
    Beside(
        RECEIPTS,
        "Receipts can be read",
        "The files in /var/lib/appliance/receipts, which show the finished stages of the host. If they cannot be read, all "
        "checks run, and the finished stages are unknown. Usual cause: the account is neither root nor allowed to use "
        "sudo.",
    ),
    Beside(
        CONTROLLER,
        "The BMC answers",
        "Each BMC of the site, by Redfish over TLS; only appliance discover queries it. A host without a BMC in the site "
        "is not assessed, which is optional. Usual causes: a wrong address, user or password in hosts[].bmc, a "
        "certificate that differs from the pinned one, or disabled Redfish.",
    ),
)


def of_stage(name: str) -> Beside:
    """Return the meaning of ``stage.NAME``."""
    return Beside(
        f"{STAGE}{name}",
        f"Stage {name} is finished on the host",
        "It replaces the stage's checks if the stage failed on the host, was blocked, skipped or is not finished yet. The "
        "next deployment continues with it.",
    )
