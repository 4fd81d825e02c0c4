"""What was delivered: hosts, GPUs and ports with their serials, and versions that stand out."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from appliance.models.run import GpuRecord, HostRecord, RunRecord
from appliance.report.wording import binary_size, fold


@dataclass(frozen=True)
class HostLine:
    """A host as text."""

    host: HostRecord
    memory: str
    gpus: str


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
    """The hosts of the run, in order."""
    return tuple(
        HostLine(h, binary_size(h.memory) if h.memory else "", _gpus(h.gpus)) for h in record.hosts
    )


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


def _gpus(gpus: Iterable[GpuRecord]) -> str:
    counts = Counter(gpu.name for gpu in gpus).most_common()
    return ", ".join(f"{n} \N{MULTIPLICATION SIGN} {name}" for name, n in counts)


def _versions(by_version: dict[str, list[str]]) -> tuple[Version, ...]:
    outliers = odd(version for version, on in by_version.items() for _ in on)
    ordered = sorted(by_version.items(), key=lambda item: -len(item[1]))
    return tuple(Version(v, fold(on), outlier=v in outliers) for v, on in ordered)
