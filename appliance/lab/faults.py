"""All faults of a rack host, and their removal, in one table."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from appliance.adapters.process import run
from appliance.errors import ConfigError
from appliance.lab import cgroups, machine, seed
from appliance.lab.board_faults import BOARD_FAULTS
from appliance.lab.fabric_faults import FABRIC_FAULTS
from appliance.lab.fault import Fault
from appliance.lab.gpu_faults import GPU_FAULTS
from appliance.lab.rack import start
from appliance.lab.service_faults import SERVICE_FAULTS
from appliance.lab.spec import Rack, RackHost

REACHABLE = "host.reachable"
FIRST_PIECE, BLOCK = 1 << 30, 4096


def find(kind: str) -> Fault:
    """The fault called ``kind``. Raises ConfigError."""
    for fault in FAULTS:
        if fault.kind == kind:
            return fault
    raise ConfigError(f'no fault is called "{kind}"', "one of " + ", ".join(f.kind for f in FAULTS))


def apply(
    rack: Rack, host: RackHost, kind: str, arguments: Sequence[str] = (), *, clear: bool = False
) -> None:
    """Inflict a fault on a host, or clear it. Raises ConfigError on wrong arguments."""
    fault = find(kind)
    if rack.spec.is_virtual:
        raise ConfigError(
            "faults are supported only on container hosts, but these are virtual machines",
            f"to cut their power: appliance power off {host.name} --hard --force",
        )
    if len(arguments) < fault.required:
        raise ConfigError(f"{kind} needs {fault.arguments}")
    (fault.clear if clear else fault.inflict)(rack, host, arguments)


def _power_off(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    machine.stop(host)


def _power_on(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    if not machine.is_running(host):
        start(rack, host)


def _freeze(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    cgroups.freeze(host, True)


def _thaw(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    cgroups.freeze(host, False)


def _fill_disk(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    """Take the free space in ever smaller pieces: the bookkeeping of a large file needs room too."""
    with _filler(host).open("ab") as file:
        piece = FIRST_PIECE
        while piece >= BLOCK:
            try:
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), piece)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                piece //= 2


def _empty_disk(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    _filler(host).unlink(missing_ok=True)


def _filler(host: RackHost) -> Path:
    return host.disk / "filler"


def _change_host_key(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    kept = host.folder / "host_keys"
    kept.mkdir(exist_ok=True)
    for file in (host.root / "etc/ssh").glob("ssh_host_*"):
        if not (kept / file.name).exists():
            _copy(file, kept / file.name)
    seed.host_key(host)
    _restart_ssh(host)


def _restore_host_key(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    kept = host.folder / "host_keys"
    for file in kept.glob("*"):
        _copy(file, host.root / "etc/ssh" / file.name)
    _restart_ssh(host)


def _copy(source: Path, target: Path) -> None:
    target.write_bytes(source.read_bytes())
    target.chmod(source.stat().st_mode)


def _restart_ssh(host: RackHost) -> None:
    init = cgroups.init(host)
    if init is not None:
        run(("nsenter", "--target", str(init), "--all", "systemctl", "restart", "ssh"))


FAULTS = (
    Fault(
        "power-off",
        "the host loses power",
        _power_off,
        _power_on,
        check=REACHABLE,
        says="does not answer on port 22 (*)",
    ),
    Fault(
        "freeze",
        "the host hangs: all its processes are stopped",
        _freeze,
        _thaw,
        check=REACHABLE,
        says="accepts connections but SSH does not answer *",
    ),
    Fault("full-disk", "the host's disk is full", _fill_disk, _empty_disk, drains=True),
    Fault(
        "host-key",
        "the host shows another ssh key",
        _change_host_key,
        _restore_host_key,
        check=REACHABLE,
        says="host key changed: pinned SHA256:*, the host shows SHA256:*",
    ),
    *FABRIC_FAULTS,
    *GPU_FAULTS,
    *BOARD_FAULTS,
    *SERVICE_FAULTS,
)
