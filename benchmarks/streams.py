"""What machines that fetch their image at once cost the control machine, beside one that fetches it alone."""

import json
import multiprocessing
import os
import socket
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from ipaddress import IPv4Address
from pathlib import Path

import click

from appliance.errors import ApplianceError
from appliance.provision import manifest
from appliance.provision.ramdisk.server import Server
from appliance.provision.server import BootServer, Guest
from benchmarks.__main__ import machine

AT_ONCE = 8
HERE = IPv4Address("127.0.0.1")
CHUNK = 4 << 20
BOUND = 1.3
"""What one of many may cost at most, of one alone."""
LIMIT = 3600.0


@dataclass(frozen=True)
class Streamed:
    """Machines that fetched the image at once: bytes of each, processor seconds of the server, wall seconds of the slowest."""

    machines: int
    each: tuple[int, ...]
    cpu: float
    slowest: float

    @property
    def cpu_each(self) -> float:
        """Processor seconds a machine."""
        return self.cpu / self.machines


@click.command()
@click.argument("image", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--output", type=click.Path(path_type=Path), help="Write every measurement as JSON.")
def main(image: Path, output: Path | None) -> None:
    """Exit: 0 where each of eight costs at most 1.3 times what one alone does, by bytes and by processor time; 1 where not."""
    disk = image / manifest.DISK
    streamed(disk, 1)  # not measured: whoever comes first has it read from the disk
    alone, together = (streamed(disk, count) for count in (1, AT_ONCE))
    ratios = {
        "bytes": max(together.each) / alone.each[0],
        "processor time": together.cpu_each / alone.cpu_each,
    }
    click.echo(
        f"{alone.each[0] / 1e6:.0f} MB to one: {alone.cpu:.2f} s of CPU, {alone.slowest:.1f} s; "
        f"to {together.machines} at once: {together.cpu:.2f} s, the slowest {together.slowest:.1f} s"
    )
    for name, value in ratios.items():
        click.echo(f"  {name} a machine: {value:.2f} times one alone (at most {BOUND:g})")
    if output:
        document = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "streams": [asdict(alone), asdict(together)],
            "ratios": ratios,
        }
        output.write_text(json.dumps(document, indent=1) + "\n")
    sys.exit(0 if all(value <= BOUND for value in ratios.values()) else 1)


def streamed(disk: Path, machines: int) -> Streamed:
    """What it costs this process to serve an image to so many installers, which are processes of their own."""
    with socket.create_server((str(HERE), 0)) as free:
        port = free.getsockname()[1]
    guests = [Guest(f"machine-{number}", disk) for number in range(machines)]
    context = multiprocessing.get_context("spawn")
    with (
        context.Pool(machines) as installers,
        BootServer({HERE}, port, disk, lambda *_: None) as server,
    ):
        for guest in guests:
            server.admit(guest, LIMIT)
        told = [{"url": server.url(HERE), "certificate": server.fingerprint, "token": g.token} for g in guests]  # fmt: skip
        installers.map(os.getsid, [0] * machines, chunksize=1)
        cpu = time.process_time()
        fetched = installers.map(_fetch, told, chunksize=1)
        cpu = time.process_time() - cpu
    return Streamed(
        machines, tuple(count for count, _ in fetched), cpu, max(took for _, took in fetched)
    )


def _fetch(settings: dict[str, str]) -> tuple[int, float]:
    """Bytes of the image, and the seconds they took, as an installer reads them."""
    began, count = time.monotonic(), 0
    download = Server(settings).image()
    while block := download.read(CHUNK):
        count += len(block)
    return count, time.monotonic() - began


if __name__ == "__main__":
    try:
        main()
    except ApplianceError as error:
        sys.exit(f"{error.message}\n{error.hint}")
