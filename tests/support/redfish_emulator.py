"""OpenStack's own Redfish emulator (sushy-tools) with its fake machines, over TLS and with a password."""

import socket
import subprocess  # noqa: TID251 - a program of others, started as they say
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bcrypt

from tests.redfish_server import PASSWORD, USER, Bmc

SYSTEM = "27946b59-9e44-4fa7-8e91-f3527a1ef094"
MAC = "52:54:00:00:00:11"
START_S = 30.0

CONFIG = f"""
SUSHY_EMULATOR_FAKE_DRIVER = True
SUSHY_EMULATOR_FAKE_SYSTEMS = [
    {{"uuid": "{SYSTEM}", "name": "node-1", "power_state": "Off", "nics": [{{"mac": "{MAC}", "ip": "10.0.0.11"}}]}}
]
"""


@contextmanager
def emulator(folder: Path, pem: Path) -> Iterator[Bmc]:
    """One machine that is off; it takes 1 to 11 s to change its state, as the emulator wants it."""
    users = folder / "users"
    users.write_text(f"{USER}:{bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()}\n")
    port = free_port()
    config = folder / "emulator.conf"
    config.write_text(
        f'{CONFIG}SUSHY_EMULATOR_AUTH_FILE = "{users}"\nSUSHY_EMULATOR_STATE_DIR = "{folder}"\n'
        f'SUSHY_EMULATOR_LISTEN_IP = "127.0.0.1"\nSUSHY_EMULATOR_LISTEN_PORT = {port}\n'
        f'SUSHY_EMULATOR_SSL_CERT = "{pem}"\nSUSHY_EMULATOR_SSL_KEY = "{pem}"\n'
    )
    program = str(Path(sys.executable).with_name("sushy-emulator"))
    with (folder / "emulator.log").open("w") as log:
        running = subprocess.Popen((program, "--config", str(config)), stdout=log, stderr=log)
    try:
        await_port(port, running)
        yield Bmc({}, pem, port=port)
    finally:
        running.terminate()
        running.wait(10)


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def await_port(port: int, running: "subprocess.Popen[bytes]", address: str = "127.0.0.1") -> None:
    """Until something listens there. Raises AssertionError where the program ended instead."""
    ends = time.monotonic() + START_S
    while time.monotonic() < ends:
        assert running.poll() is None, "the emulator ended; its log says why"
        try:
            socket.create_connection((address, port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the emulator does not listen")
