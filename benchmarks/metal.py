"""What it takes to give a bare machine its system: by image, beside a plain start and an install by debootstrap in the same machine."""

import json
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

from appliance.adapters.process import run
from appliance.errors import ApplianceError
from appliance.lab import ssh
from appliance.lab.spec import IMAGE_LAYER, Rack, load
from benchmarks.__main__ import PROGRAM, machine

RACK, HEAD = "metal-bench", "head"
FIFTH, STARTS = 0.2, 2.5
"""At most: of an install by debootstrap; plain starts."""
LIMIT = 7200.0
# Into a file of the machine's own disk: a disk as another, on the same emulated processors. What it installs is less than the image has.
PREPARED = """set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install -y --no-install-recommends debootstrap dosfstools fdisk >/dev/null 2>&1
truncate -s 6G /root/disk
losetup --find --partscan /root/disk
"""
PEER = """set -eu
export DEBIAN_FRONTEND=noninteractive
eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy)"
export http_proxy https_proxy
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' | head -n 1)
loop=$(losetup --noheadings --output NAME --associated /root/disk)
printf 'label: gpt\\nsize=256MiB, type=uefi\\ntype=linux\\n' | sfdisk --quiet "$loop"
udevadm settle
mkfs.vfat "$loop"p1 >/dev/null
mkfs.ext4 -q "$loop"p2
mount "$loop"p2 /mnt
debootstrap --variant=minbase bookworm /mnt "$mirror" >/root/debootstrap.log
mkdir -p /mnt/boot/efi
mount "$loop"p1 /mnt/boot/efi
for folder in dev proc sys; do mount --rbind /$folder /mnt/$folder; done
cp -rL /etc/apt/. /mnt/etc/apt/
cp -L /etc/resolv.conf /mnt/etc/resolv.conf
cp -r /usr/local/share/ca-certificates /mnt/usr/local/share/
chroot /mnt apt-get -qq update
chroot /mnt apt-get -qq install -y --no-install-recommends ca-certificates linux-image-amd64 grub-efi-amd64 openssh-server systemd-sysv python3 >>/root/debootstrap.log 2>&1
chroot /mnt grub-install --target=x86_64-efi --removable --no-nvram >>/root/debootstrap.log 2>&1
chroot /mnt update-grub >>/root/debootstrap.log 2>&1
sync
"""
LONGER = 1.1
"""What is more than so many times its bound is not waited for."""
ENDED_BY_TIMEOUT = 124


@dataclass(frozen=True)
class Peer:
    """Seconds of an install by debootstrap; it was stopped where it did not end."""

    seconds: float
    ended: bool


@dataclass(frozen=True)
class Made:
    """One machine, seconds: switched off and blank to a verified login; switched on to a login; the peer."""

    installed: float
    started: float
    peer: Peer | None


@click.command()
@click.option(
    "--without-peer", is_flag=True, help="No install by debootstrap, which takes longest."
)
@click.option("--output", type=click.Path(path_type=Path), help="Write every measurement as JSON.")
def main(without_peer: bool, output: Path | None) -> None:
    """Exit: 0 where all that was measured is within its bounds, 1 where not."""
    with _rack() as rack:
        made = _made(rack, peer=not without_peer)
    good = _show(made)
    if output:
        document = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "made": asdict(made),
        }
        output.write_text(json.dumps(document, indent=1) + "\n")
    sys.exit(0 if good else 1)


@contextmanager
def _rack() -> Iterator[Rack]:
    try:
        argv = ("lab", "up", "--name", RACK, "--machines", "vm", "--count", "2")
        run((PROGRAM, *argv), timeout=LIMIT)
        found = load(RACK)
        assert found
        assert IMAGE_LAYER in found.layers
        yield found
    finally:
        run((PROGRAM, "lab", "down", "--name", RACK, "--yes"), timeout=LIMIT)


def _made(rack: Rack, *, peer: bool) -> Made:
    click.echo("Installing a machine", err=True)
    said = _program(rack, "provision", "install", HEAD, "--yes", "--json")
    (told,) = json.loads(said)["hosts"]
    if told["state"] != "installed":
        raise SystemExit(f"{HEAD} was not installed: {told['cause']}")
    started = _start(rack)
    return Made(told["seconds"], started, _peer(rack, told["seconds"]) if peer else None)


def _peer(rack: Rack, installed: float) -> Peer:
    click.echo("Installing by debootstrap inside it", err=True)
    _on(rack, PREPARED)
    limit = installed / FIFTH * LONGER
    began = time.monotonic()
    code = _on(rack, f"timeout {limit:.0f} sh -c {shlex.quote(PEER)}", ENDED_BY_TIMEOUT)
    return Peer(time.monotonic() - began, ended=code == 0)


def _on(rack: Rack, line: str, also: int = 0) -> int:
    done = ssh.on_host(rack, rack.host(HEAD), (line,), timeout=LIMIT)
    if done.returncode not in (0, also):
        raise SystemExit(f"{HEAD}: {done.stderr[-1500:]}")
    return done.returncode


def _start(rack: Rack) -> float:
    """Seconds from its power switch to a login that is verified by its pinned key."""
    click.echo("Starting it as it is", err=True)
    _program(rack, "power", "off", HEAD, "--hard", "--force", "--yes")
    began = time.monotonic()
    _program(rack, "power", "on", HEAD, "--yes")
    while ssh.on_host(rack, rack.host(HEAD), ("true",), timeout=60).returncode:
        if time.monotonic() - began > LIMIT:
            raise SystemExit(f"{HEAD} does not answer")
        time.sleep(0.5)
    return time.monotonic() - began


def _program(rack: Rack, *words: str) -> str:
    argv = (PROGRAM, *words, "--site", str(rack.site_dir))
    return run(argv, timeout=LIMIT).stdout


def _show(made: Made) -> bool:
    click.echo(f"off and blank to a verified login {made.installed:.0f} s; plain start {made.started:.0f} s")  # fmt: skip
    rows = [("of plain starts", made.installed / made.started, STARTS)]
    if peer := made.peer:
        told = "" if peer.ended else ", and it had not ended"
        click.echo(f"debootstrap, kernel and boot loader {peer.seconds:.0f} s{told}")
        rows.append(("of debootstrap", made.installed / peer.seconds, FIFTH))
    for name, value, bound in rows:
        told = "" if value <= bound else ": MISSED"
        click.echo(f"  {value:5.2f} {name} (at most {bound:g}){told}")
    return all(value <= bound for _, value, bound in rows)


if __name__ == "__main__":
    try:
        main()
    except ApplianceError as error:
        sys.exit(f"{error.message}\n{error.hint}")
