"""Checks whether the adapters' firmware is new enough, and equal on all adapters of a kind."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from appliance.checks.causes import UNASKED
from appliance.checks.check import (
    Check,
    ClusterCheck,
    Nature,
    View,
    judged,
    not_assessed,
    passed,
    warned,
)
from appliance.checks.votes import usual
from appliance.models.gap import Gap
from appliance.models.result import Judgement, Place, Status, place
from appliance.models.site import Role
from appliance.stages.fabric import ids
from appliance.stages.fabric.causes import NO_PORT
from appliance.stages.fabric.checks.subnet import is_simulated
from appliance.stages.fabric.facts import Port
from appliance.stages.fabric.hca_firmware import AdapterFirmware, hca_firmware, numbers
from appliance.text import plural

OURS = "site.fabric.firmware_minimum"
HAVE_PORTS = frozenset({Role.CONTROL, Role.GPU})


class Adapter(NamedTuple):
    """An adapter of a host; all ports of an adapter share one firmware."""

    host: str
    port: Port

    @property
    def place(self) -> Place:
        return place(self.host, self.port.device)


def judge_firmware(view: View) -> Iterable[Judgement]:
    """Compare every adapter with the minimum of its kind, then with others of the same board."""
    if all(profile.hardware.fabric.link_layer == "none" for profile in view.profiles):
        return []
    common: dict[str, object] = {"simulated": is_simulated(view)}
    adapters = _adapters(view)
    read = [a for a in adapters if numbers(a.port.firmware)]
    least = {version: _least(view, version) for version in {a.port.firmware for a in read}}
    old = [_old(a, wants, common) for a in read if (wants := least[a.port.firmware])]
    others = [a for a in read if not least[a.port.firmware]]
    results = [*old, *_outliers(others, common), *_unread(view, adapters, common)]
    results += _unlisted(view, others, common)
    if results or not read:
        return results
    versions = ", ".join(sorted({a.port.firmware for a in read}))
    return [passed("cluster", versions, evidence=plural(len(read), "adapter"), **common)]


def _adapters(view: View) -> list[Adapter]:
    """Return one port of each adapter, host by host."""
    return [
        Adapter(host.name, port)
        for host in view.site.hosts
        if (facts := view.facts.get(host.name)) and not HAVE_PORTS.isdisjoint(host.roles)
        for port in {port.device: port for port in reversed(facts.ports)}.values()
    ]


@dataclass(frozen=True)
class Least:
    """A minimum version and its source."""

    status: Status
    wanted: str
    limit: str
    source: str


def _least(view: View, version: str) -> Least | None:
    """Return the minimum: the site's, which fails, else the vendor's, which warns."""
    known = hca_firmware().of(version)
    if own := _stated(view, version):
        name = known.name if known else "this kind of adapter"
        wanted = f"{name} requires {own} or newer"
        is_old = numbers(version) < numbers(own)
        return Least(Status.FAIL, wanted, own, OURS) if is_old else None
    if known is None or known.accepts(version):
        return None
    limit = known.minimum
    wanted = f"{known.name} requires {limit} or newer{_branches_remark(known)}"
    return Least(Status.WARN, wanted, limit, f"{known.source}, {known.date}")


def _old(adapter: Adapter, least: Least, common: dict[str, object]) -> Judgement:
    version = adapter.port.firmware
    return judged(
        adapter.place,
        least.status,
        cause=f"{adapter.port.device} has firmware {version}, {least.wanted}",
        fix=f"flash it with the firmware of board {adapter.port.board or '(ibv_devinfo)'} (mlxfwmanager, or the server "
        "vendor's own tool), then restart the host; to change the minimum, set fabric.firmware_minimum",
        value=version,
        limit=least.limit,
        limit_source=least.source,
        **common,
    )


def _stated(view: View, version: str) -> str:
    """Return the site's minimum for this kind of adapter, else ""."""
    kind = numbers(version)[0]
    return next((v for v in view.site.fabric.firmware_minimum if numbers(v)[0] == kind), "")


def _branches_remark(known: AdapterFirmware) -> str:
    """Return a remark that names older branches that are also sufficient."""
    kept = ", ".join(known.branches)
    return f" (of older branches: {kept})" if kept else ""


def _outliers(adapters: list[Adapter], common: dict[str, object]) -> Iterator[Judgement]:
    """Report boards whose firmware differs from that of most hosts."""
    boards: dict[str, dict[str, list[str]]] = {}
    for adapter in adapters:
        of_board = boards.setdefault(adapter.port.board, {})
        of_board.setdefault(adapter.host, []).append(adapter.port.firmware)
    most = {board: usual(by_host) for board, by_host in boards.items()}
    for adapter in adapters:
        board, firmware = adapter.port.board, adapter.port.firmware
        wanted = most[board]
        if board and firmware != wanted:
            cause = f"{adapter.port.device} has firmware {firmware}, most of board {board} have {wanted}"
            fix = f"flash one firmware on all boards {board}"
            yield warned(
                adapter.place, cause, fix, aspect="board", value=firmware, limit=wanted, **common
            )


def _unread(view: View, adapters: list[Adapter], common: dict[str, object]) -> Iterator[Judgement]:
    """Report GPU hosts without an answer, an adapter or a readable firmware."""
    by_host: dict[str, list[Adapter]] = {}
    for adapter in adapters:
        by_host.setdefault(adapter.host, []).append(adapter)
    for host in view.site.with_role(Role.GPU):
        own = by_host.get(host.name, [])
        mute = [a.port.device for a in own if not numbers(a.port.firmware)]
        if host.name not in view.facts:
            why = Gap(f"{host.name} did not answer", (host.name,))
        elif not own:
            why = view.facts[host.name].gap("fabric", "no adapter was found")
        elif mute:
            why = Gap(f"the firmware of {', '.join(mute)} could not be read")
        else:
            continue
        yield not_assessed(host.name, why, **common)


def _unlisted(
    view: View, adapters: list[Adapter], common: dict[str, object]
) -> Iterator[Judgement]:
    """Report kinds of adapters without a known minimum."""
    last = {a.port.firmware: a for a in adapters}
    unknown = {
        version: adapter.place
        for version, adapter in last.items()
        if not hca_firmware().of(version) and not _stated(view, version)
    }
    for version, at in sorted(unknown.items(), key=lambda item: item[0]):
        cause = f"no minimum is known for firmware {version}"
        fix = "state one in site.yml: fabric.firmware_minimum"
        yield not_assessed(at, cause, fix=fix, required=False, aspect="no minimum", **common)


CHECKS: tuple[Check, ...] = (
    ClusterCheck(
        id=ids.FIRMWARE,
        title="Adapter firmware is new enough, and the same on all",
        judge=judge_firmware,
        explain="The firmware of every adapter. Below the site's minimum it fails. Below the fixed versions of NVIDIA's security bulletins, or "
        "different from other adapters of the same board, it is a warning. An adapter with old firmware may lack a fix or a speed that all "
        "others have.",
        limit="fabric.firmware_minimum of the site; else NVIDIA's security bulletins 5699 and 5847 (2026), per kind of adapter",
        nature=Nature.SYMPTOM,
        causes=(
            UNASKED,
            NO_PORT,
        ),
    ),
)
