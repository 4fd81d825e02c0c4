"""Results that the program gives beside those of checks, under ids of their own."""

from dataclasses import dataclass

REACHABLE = "host.reachable"
RECEIPTS = "host.receipts"
CONTROLLER = "bmc.reachable"
STAGE = "stage."
"""How the ids of results that speak of a whole stage begin; its name follows."""


@dataclass(frozen=True)
class Beside:
    """What an id stands for, in the words of ``appliance explain``."""

    id: str
    title: str
    explain: str


BESIDE = (
    Beside(
        REACHABLE,
        "The host answers",
        "One connection by SSH to each host, with its pinned key, on every look. A host that does not answer is one failure, "
        "and what only follows from it stands under it. Usual causes: power, cable, address or firewall; no SSH server; a host "
        "that hangs; another host key, so that the host was installed anew or somebody answers in its place.",
    ),
    Beside(
        RECEIPTS,
        "Receipts can be read",
        "The files in /var/lib/appliance/receipts, by which it is known which stages are finished on the host. Where they cannot be "
        "read all checks are made, and that is not known. Usual cause: who looks is neither root nor may use sudo.",
    ),
    Beside(
        CONTROLLER,
        "The management controller answers",
        "Each controller of the site, by Redfish over TLS; appliance discover alone asks. A host without one in the site is not "
        "assessed, which is optional. Usual causes: address, user or password in hosts[].bmc, another certificate than the "
        "pinned one, Redfish that is switched off.",
    ),
)


def of_stage(name: str) -> Beside:
    """What ``stage.NAME`` stands for."""
    return Beside(
        f"{STAGE}{name}",
        f"Stage {name} came through on the host",
        "It stands in place of the stage's checks where the stage failed there, was blocked, was left out or is not finished yet. "
        "The next deployment goes on with it.",
    )
