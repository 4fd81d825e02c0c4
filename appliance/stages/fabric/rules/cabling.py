"""Rules over the fabric's cabling, where the site states it."""

from collections.abc import Iterator

from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, nearest, repeated
from appliance.models.site import Role

CABLES: KeyPath = ("fabric", "cables")


def stated(case: Case) -> Iterator[Finding]:
    """Cables are listed where, and only where, the cabling says so."""
    fabric = case.site.fabric
    if not case.checked.whole("fabric"):
        return
    if fabric.cabling == "listed" and not fabric.cables:
        yield case.problem(
            ("fabric", "cabling"), "listed, but fabric.cables names no cable", "list every cable"
        )
    elif fabric.cables and fabric.cabling != "listed":
        message = f"are listed, but fabric.cabling is {fabric.cabling}"
        yield case.problem(CABLES, message, "set cabling: listed, or take the cables out")


def cables(case: Case) -> Iterator[Finding]:
    """Each adapter is a GPU host's and has one cable, and so has each port of a switch."""
    known = [host.name for host in case.site.with_role(Role.GPU)]
    given = case.site.fabric.cables
    for i, cable in enumerate(given):
        if cable.host not in known and case.checked.whole("hosts"):
            message = f'no GPU host is called "{cable.host}"'
            yield case.problem(
                (*CABLES, i, "host"), message, nearest(cable.host, known, "GPU hosts")
            )
    plugs = [((*CABLES, i, "hca"), f"{c.hca} of {c.host}") for i, c in enumerate(given)]
    sockets = [((*CABLES, i, "port"), f"port {c.port} of {c.switch}") for i, c in enumerate(given)]
    for path, name, first in repeated([*plugs, *sockets]):
        message = f"{name} has a cable already (line {case.line(first)})"
        yield case.problem(path, message, "an adapter's port and a switch's port take one cable")


def trunks(case: Case) -> Iterator[Finding]:
    """Two different switches, and each pair once."""
    given = case.site.fabric.trunks
    for i, trunk in enumerate(given):
        if trunk.switch == trunk.peer:
            path: KeyPath = ("fabric", "trunks", i, "peer")
            yield case.problem(path, f"{trunk.peer} to itself", "name the other switch")
    pairs: list[tuple[KeyPath, str]] = [
        (("fabric", "trunks", i, "peer"), " and ".join(sorted((t.switch, t.peer))))
        for i, t in enumerate(given)
    ]
    for path, name, first in repeated(pairs):
        message = f"{name} stand twice (also line {case.line(first)})"
        yield case.problem(path, message, "keep one and give it the number of cables")
