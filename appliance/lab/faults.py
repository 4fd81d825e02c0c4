"""What can be made to go wrong on a rack host, and made good again; one table."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from appliance.adapters.process import run
from appliance.errors import ApplianceError, ConfigError
from appliance.lab import cgroups, fabric, machine, seed, sysfs
from appliance.lab.fault import Fault
from appliance.lab.gpu_faults import GPU_FAULTS
from appliance.lab.netlist import Hca, hcas
from appliance.lab.rack import start
from appliance.lab.spec import Rack, RackHost

DEFAULT_ERRORS = "500"
MAX_ERRORS = 0xFFFF
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


def _port_down(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    _set_link(rack, host, _hca(rack, host, arguments), False)


def _port_up(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    _set_link(rack, host, _hca(rack, host, arguments), True)


def _set_link(rack: Rack, host: RackHost, hca: Hca, is_up: bool) -> None:
    """sysfs follows the InfiniBand fabric by itself; an Ethernet port is nothing but its files."""
    if rack.hardware.has_subnet:
        fabric.ask(rack, f'{"ReLink" if is_up else "Unlink"} "{hca.node_id}"[1]')
        return
    for name, text in sysfs.ethernet_port_files(rack.hardware, is_up).items():
        (_port(host, hca) / name).write_text(f"{text}\n")


def _port(host: RackHost, hca: Hca) -> Path:
    return host.root / sysfs.ROOT / sysfs.port_path(hca.device)


def _count_errors(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    hca = _hca(rack, host, arguments)
    wanted = arguments[1] if len(arguments) > 1 else DEFAULT_ERRORS
    if not wanted.isdigit() or int(wanted) > MAX_ERRORS:
        raise ConfigError(f'"{wanted}" is not a count of errors', f"0 to {MAX_ERRORS}")
    _set_errors(rack, host, hca, int(wanted))


def _forget_errors(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    _set_errors(rack, host, _hca(rack, host, arguments), 0)


def _set_errors(rack: Rack, host: RackHost, hca: Hca, count: int) -> None:
    """Set the counter where the fabric's tools read it, and where the host's own sysfs shows it."""
    if rack.hardware.has_subnet:
        counter = f"PortCounters.SymbolErrorCounter={count}"
        fabric.ask(rack, f'PerformanceSet "{hca.node_id}"[1] {counter}')
    (_port(host, hca) / "counters/symbol_error").write_text(f"{count}\n")


def _hca(rack: Rack, host: RackHost, arguments: Sequence[str]) -> Hca:
    own = {hca.device: hca for hca in hcas(rack) if hca.host == host.name}
    if arguments[0] not in own:
        raise ApplianceError(
            f"{host.name} has no {arguments[0]}", f"it has {', '.join(own) or 'no ports'}"
        )
    return own[arguments[0]]


FAULTS = (
    Fault("power-off", "the host loses power", _power_off, _power_on),
    Fault("freeze", "the host hangs: nothing on it runs any more", _freeze, _thaw),
    Fault("full-disk", "the host's disk is full", _fill_disk, _empty_disk),
    Fault("host-key", "the host shows another ssh key", _change_host_key, _restore_host_key),
    Fault("port-down", "the port's cable is out", _port_down, _port_up, "DEVICE", 1),
    Fault(
        "port-errors",
        f"the port has counted symbol errors (default {DEFAULT_ERRORS})",
        _count_errors,
        _forget_errors,
        "DEVICE [COUNT]",
        1,
    ),
    *GPU_FAULTS,
)
