"""Rail-optimised fabrics of any size for ibsim: leaves of 40 ports, half of them down, each with a cable to every spine."""

from collections.abc import Iterator
from dataclasses import dataclass, field

RAILS = 8
PER_LEAF = 20
SPINES = 20

End = tuple[str, int]


@dataclass
class Fabric:
    """``hosts`` x 8 HDR ports; ``swapped`` exchanges two cables of a host, ``cut`` takes cables of a leaf to a spine away."""

    hosts: int
    swapped: tuple[int, int, int] | None = None
    cut: set[tuple[str, int]] = field(default_factory=set)

    @property
    def groups(self) -> int:
        return (self.hosts - 1) // PER_LEAF + 1

    @property
    def leaves(self) -> tuple[str, ...]:
        return tuple(
            f"leaf-{g}-{r}" for g in range(1, self.groups + 1) for r in range(1, RAILS + 1)
        )

    def cables(self) -> Iterator[tuple[End, End]]:
        """Every cable once, the lower end first."""
        for host in range(self.hosts):
            for rail in range(RAILS):
                yield (adapter(host, rail), 1), self._leaf(host, rail)
        for number, leaf in enumerate(self.leaves, 1):
            for spine in range(1, SPINES + 1):
                if (leaf, spine) not in self.cut:
                    yield (leaf, PER_LEAF + spine), (f"spine-{spine}", number)

    def netlist(self) -> str:
        """As ibsim reads it."""
        ends: dict[str, list[tuple[int, End]]] = {}
        for a, b in self.cables():
            ends.setdefault(a[0], []).append((a[1], b))
            ends.setdefault(b[0], []).append((b[1], a))
        nodes = [*self.leaves, *(f"spine-{n}" for n in range(1, SPINES + 1))]
        nodes += [adapter(host, rail) for host in range(self.hosts) for rail in range(RAILS)]
        ids = {name: _id(number, name) for number, name in enumerate(nodes, 1)}
        return "\n".join(self._node(name, ids, ends.get(name, [])) for name in nodes)

    def _leaf(self, host: int, rail: int) -> End:
        if self.swapped and host == self.swapped[0] and rail in self.swapped[1:]:
            rail = sum(self.swapped[1:]) - rail
        return f"leaf-{host // PER_LEAF + 1}-{rail + 1}", host % PER_LEAF + 1

    def _node(self, name: str, ids: dict[str, str], ends: list[tuple[int, End]]) -> str:
        is_switch = ids[name].startswith("S")
        ports = (40 if name.startswith("leaf") else len(self.leaves)) if is_switch else 1
        number = ids[name].partition("-")[2]
        own = "switchguid" if is_switch else "caguid"
        lines = [
            f"{own}=0x{number}",
            f'{"Switch" if is_switch else "Ca"} {ports} "{ids[name]}" # "{name}"',
        ]
        for port, (peer, peer_port) in ends:
            lines.append(f'[{port}] "{ids[peer]}"[{peer_port}] # "{peer}" lid 0 4xHDR')
        return "\n".join(lines) + "\n"


def adapter(host: int, rail: int) -> str:
    """Its description, as rdma-ndd writes it."""
    return f"gpu-{host} mlx5_{rail}"


def _id(number: int, name: str) -> str:
    return f"{'H' if ' ' in name else 'S'}-{0x0C42A1000000 + number * 16:016x}"
