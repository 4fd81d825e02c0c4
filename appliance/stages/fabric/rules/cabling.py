"""Rules for the fabric's cabling, if the site declares it."""

from collections.abc import Iterator

from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, nearest, repeated
from appliance.models.site import Role

CABLES: KeyPath = ("fabric", "cables")


def stated(case: Case) -> Iterator[Finding]:
    """Cables are listed if and only if cabling is listed."""
    fabric = case.site.fabric
    if not case.checked.whole("fabric"):
        return
    if fabric.cabling == "listed" and not fabric.cables:
        yield case.problem(
            ("fabric", "cabling"), "is listed, but fabric.cables is empty", "list every cable"
        )
    elif fabric.cables and fabric.cabling != "listed":
        message = f"are listed, but fabric.cabling is {fabric.cabling}"
        yield case.problem(CABLES, message, "set cabling: listed, or remove the cables")


def cables(case: Case) -> Iterator[Finding]:
    """Each adapter belongs to a GPU host, and each port has one cable."""
    known = [host.name for host in case.site.with_role(Role.GPU)]
    given = case.site.fabric.cables
    for i, cable in enumerate(given):
        if cable.host not in known and case.checked.whole("hosts"):
            message = f'there is no GPU host "{cable.host}"'
            yield case.problem(
                (*CABLES, i, "host"), message, nearest(cable.host, known, "GPU hosts")
            )
    plugs = [((*CABLES, i, "hca"), f"{c.hca} of {c.host}") for i, c in enumerate(given)]
    sockets = [((*CABLES, i, "port"), f"port {c.port} of {c.switch}") for i, c in enumerate(given)]
    for path, name, first in repeated([*plugs, *sockets]):
        message = f"{name} already has a cable (line {case.line(first)})"
        yield case.problem(path, message, "each port of an adapter or a switch has one cable")


def trunks(case: Case) -> Iterator[Finding]:
    """Trunks connect two different switches, and each pair is listed once."""
    given = case.site.fabric.trunks
    for i, trunk in enumerate(given):
        if trunk.switch == trunk.peer:
            path: KeyPath = ("fabric", "trunks", i, "peer")
            yield case.problem(path, f"connects {trunk.peer} to itself", "name the other switch")
    pairs: list[tuple[KeyPath, str]] = [
        (("fabric", "trunks", i, "peer"), " and ".join(sorted((t.switch, t.peer))))
        for i, t in enumerate(given)
    ]
    for path, name, first in repeated(pairs):
        message = f"{name} are given twice (also line {case.line(first)})"
        yield case.problem(path, message, "keep one, and set its number of cables")
