"""What was delivered: hosts, GPUs and ports, equal ones in one row; serial numbers; versions that differ from the majority."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from appliance.models.run import GpuRecord, HostRecord, PortRecord, RunRecord
from appliance.report.formatting import binary_size, fold, targets

Part = TypeVar("Part", GpuRecord, PortRecord)


@dataclass(frozen=True)
class HostLine:
    """Hosts that differ only in name, address and serial numbers; ``host`` is the first of them."""

    names: str
    host: HostRecord
    memory: str
    gpus: str


@dataclass(frozen=True)
class GpuLine:
    """GPUs that differ only in index and serial number; ``gpu`` is the first of them."""

    targets: str
    gpu: GpuRecord


@dataclass(frozen=True)
class PortLine:
    """Ports that differ only in name and GUID; ``port`` is the first of them."""

    targets: str
    port: PortRecord
    at_rate: bool


@dataclass(frozen=True)
class Version:
    """A component's version on some hosts; an outlier differs from the version of most hosts."""

    version: str
    hosts: str
    outlier: bool


@dataclass(frozen=True)
class Component:
    """A component with all versions found, the most frequent first."""

    name: str
    versions: tuple[Version, ...]


def hosts(record: RunRecord) -> tuple[HostLine, ...]:
    """Return the hosts of the run grouped by hardware, in order."""
    kinds: dict[tuple[object, ...], list[HostRecord]] = {}
    for h in record.hosts:
        kind = (h.roles, h.profile, h.os, h.kernel, h.cpu, h.memory, _gpus(h.gpus), h.unreachable)
        kinds.setdefault(kind, []).append(h)
    return tuple(_host_line(alike) for alike in kinds.values())


def gpus(record: RunRecord) -> tuple[GpuLine, ...]:
    """Return all GPUs by model, firmware, driver and nearest adapters."""
    found = ((f"{h.name}/GPU {gpu.index}", gpu) for h in record.hosts for gpu in h.gpus)
    alike = _grouped(found, lambda gpu: (gpu.name, gpu.vbios, gpu.driver, gpu.adapters))
    return tuple(GpuLine(named, gpu) for named, gpu in alike)


def ports(record: RunRecord) -> tuple[PortLine, ...]:
    """Return all RDMA ports by board, firmware, state and rate, and whether the rate is that of the class."""
    groups: dict[tuple[object, ...], list[tuple[str, PortRecord]]] = {}
    for host in record.hosts:
        for port in host.ports:
            good = record.is_at_rate(port, host)
            kind = (good, port.board, port.firmware, port.state, port.rate)
            groups.setdefault(kind, []).append((f"{host.name}/{_named(host, port)}", port))
    return tuple(
        PortLine(targets(name for name, _ in group), group[0][1], bool(kind[0]))
        for kind, group in groups.items()
    )


def components(record: RunRecord) -> tuple[Component, ...]:
    """Return versions by component; one if all hosts agree."""
    found: dict[str, dict[str, list[str]]] = {}
    for host, versions in record.versions.items():
        for name, version in versions.items():
            found.setdefault(name, {}).setdefault(version, []).append(host)
    return tuple(Component(name, _versions(by_version)) for name, by_version in found.items())


def odd(versions: Iterable[str]) -> frozenset[str]:
    """Return the versions that most hosts do not have; all of them if none is the most frequent."""
    counts = Counter(version for version in versions if version).most_common()
    if len(counts) < 2:
        return frozenset()
    clear = counts[0][1] > counts[1][1]
    return frozenset(version for version, _ in counts[1 if clear else 0 :])


def gpu_models(record: RunRecord) -> str:
    """Return the number of GPUs of each model, the most frequent first."""
    return _gpus(gpu for host in record.hosts for gpu in host.gpus)


def _host_line(alike: list[HostRecord]) -> HostLine:
    first = alike[0]
    memory = binary_size(first.memory) if first.memory else ""
    return HostLine(fold(h.name for h in alike), first, memory, _gpus(first.gpus))


def _grouped(
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
    """Name an adapter's only port by the adapter, so that a host's adapters fold: ``mlx5_[0-7]``."""
    alone = sum(p.device == port.device for p in host.ports) == 1
    return port.device if alone else f"{port.device}/{port.port}"
