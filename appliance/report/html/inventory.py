"""What was delivered: hosts, GPUs and ports, alike ones in one row; serials of each; versions that stand out."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from appliance.models.run import GpuRecord, HostRecord, PortRecord, RunRecord
from appliance.report.wording import binary_size, fold, targets

Part = TypeVar("Part", GpuRecord, PortRecord)


@dataclass(frozen=True)
class HostLine:
    """Hosts that differ in name, address and serials alone; ``host`` is the first of them."""

    names: str
    host: HostRecord
    memory: str
    gpus: str


@dataclass(frozen=True)
class GpuLine:
    """GPUs that differ in index and serial alone; ``gpu`` is the first of them."""

    targets: str
    gpu: GpuRecord


@dataclass(frozen=True)
class PortLine:
    """Ports that differ in name and GUID alone; ``port`` is the first of them."""

    targets: str
    port: PortRecord


@dataclass(frozen=True)
class Version:
    """A component's version on some hosts; an outlier differs from what most hosts have."""

    version: str
    hosts: str
    outlier: bool


@dataclass(frozen=True)
class Component:
    """A component with all versions found, the most frequent first."""

    name: str
    versions: tuple[Version, ...]


def hosts(record: RunRecord) -> tuple[HostLine, ...]:
    """The hosts of the run by what they are, in order."""
    kinds: dict[tuple[object, ...], list[HostRecord]] = {}
    for h in record.hosts:
        kind = (h.roles, h.os, h.kernel, h.cpu, h.memory, _gpus(h.gpus), h.unreachable)
        kinds.setdefault(kind, []).append(h)
    return tuple(_host_line(alike) for alike in kinds.values())


def gpus(record: RunRecord) -> tuple[GpuLine, ...]:
    """All GPUs by model, firmware, driver and nearest adapters."""
    found = ((f"{h.name}/GPU {gpu.index}", gpu) for h in record.hosts for gpu in h.gpus)
    alike = _alike(found, lambda gpu: (gpu.name, gpu.vbios, gpu.driver, gpu.adapters))
    return tuple(GpuLine(named, gpu) for named, gpu in alike)


def ports(record: RunRecord) -> tuple[PortLine, ...]:
    """All RDMA ports by board, firmware, state and rate."""
    found = ((f"{h.name}/{_named(h, p)}", p) for h in record.hosts for p in h.ports)
    alike = _alike(found, lambda port: (port.board, port.firmware, port.state, port.rate))
    return tuple(PortLine(named, port) for named, port in alike)


def components(record: RunRecord) -> tuple[Component, ...]:
    """Versions by component; where all hosts agree there is one."""
    found: dict[str, dict[str, list[str]]] = {}
    for host, versions in record.versions.items():
        for name, version in versions.items():
            found.setdefault(name, {}).setdefault(version, []).append(host)
    return tuple(Component(name, _versions(by_version)) for name, by_version in found.items())


def odd(versions: Iterable[str]) -> frozenset[str]:
    """The versions that most do not have; all of them where none is the most frequent."""
    counts = Counter(version for version in versions if version).most_common()
    if len(counts) < 2:
        return frozenset()
    clear = counts[0][1] > counts[1][1]
    return frozenset(version for version, _ in counts[1 if clear else 0 :])


def gpu_models(record: RunRecord) -> str:
    """The number of GPUs of each model, the most frequent first."""
    return _gpus(gpu for host in record.hosts for gpu in host.gpus)


def _host_line(alike: list[HostRecord]) -> HostLine:
    first = alike[0]
    memory = binary_size(first.memory) if first.memory else ""
    return HostLine(fold(h.name for h in alike), first, memory, _gpus(first.gpus))


def _alike(
    found: Iterable[tuple[str, Part]], kind: Callable[[Part], object]
) -> Iterable[tuple[str, Part]]:
    groups: dict[object, list[tuple[str, Part]]] = {}
    for name, part in found:
        groups.setdefault(kind(part), []).append((name, part))
    return [(targets(name for name, _ in group), group[0][1]) for group in groups.values()]


def _gpus(gpus: Iterable[GpuRecord]) -> str:
    counts = Counter(gpu.name for gpu in gpus).most_common()
    return ", ".join(f"{n} \N{MULTIPLICATION SIGN} {name}" for name, n in counts)


def _versions(by_version: dict[str, list[str]]) -> tuple[Version, ...]:
    outliers = odd(version for version, on in by_version.items() for _ in on)
    ordered = sorted(by_version.items(), key=lambda item: -len(item[1]))
    return tuple(Version(v, fold(on), outlier=v in outliers) for v, on in ordered)


def _named(host: HostRecord, port: PortRecord) -> str:
    """An adapter's only port by the adapter, so that a host's adapters fold: ``mlx5_[0-7]``."""
    alone = sum(p.device == port.device for p in host.ports) == 1
    return port.device if alone else f"{port.device}/{port.port}"
