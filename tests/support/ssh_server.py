"""An SSH server of this process on loopback: real clients log in with a key and run programs on this very machine."""

import contextlib
import os
import socket
import subprocess  # noqa: TID251 - it stands for a host, and pipes what runs there
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko  # noqa: TID251 - it is the other end of the door
from paramiko.common import (  # noqa: TID251
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    OPEN_SUCCEEDED,
)

from appliance.adapters.remote import known_hosts_name

ADDRESS = "127.0.0.1"


class SshServer:
    """Takes one key. ``slow`` says of a command that it shall never end; ``commands`` are those that came.

    ``channels``: s that each session waits before it is opened, by order; the rest at once.
    """

    def __init__(self, home: Path, address: str = ADDRESS) -> None:
        self.home = home
        self.address = address
        self.commands: list[str] = []
        self.channels: list[float] = []
        self.slow: Callable[[str], bool] = lambda command: False
        self.host_key = paramiko.ECDSAKey.generate()
        self.user_key: paramiko.PKey = paramiko.ECDSAKey.generate()
        self._socket = socket.create_server((address, 0))
        self.port: int = self._socket.getsockname()[1]
        self._over = threading.Event()
        self._transports: list[paramiko.Transport] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def pin(self, file: Path, *names: str) -> None:
        """Writes the host key as a known_hosts file has it."""
        name = ",".join((known_hosts_name(self.address, self.port), *names))
        file.write_text(f"{name} {self.host_key.get_name()} {self.host_key.get_base64()}\n")

    def give_key(self, file: Path) -> None:
        """Writes the private key that is let in."""
        self.user_key.write_private_key_file(str(file))
        file.chmod(0o600)

    def close(self) -> None:
        """Ends all connections."""
        self._over.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for transport in self._transports:
            transport.close()

    def _serve(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
                transport = paramiko.Transport(self._socket.accept()[0])
                self._transports.append(transport)
                transport.add_server_key(self.host_key)
                transport.start_server(server=_Login(self), event=threading.Event())

    def work(self, channel: paramiko.Channel, command: str) -> None:
        """Runs a command on this machine, its input and output over the channel."""
        self.commands.append(command)
        if self.slow(command):
            self._over.wait()
            return
        environment = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        with subprocess.Popen(
            ("/bin/sh", "-c", command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=self.home,
        ) as program:
            out, err = program.communicate(channel.makefile("rb").read())
        # The client may be gone already.
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            channel.sendall(out)
            channel.sendall_stderr(err)
            channel.send_exit_status(program.returncode)
            channel.close()


class _Login(paramiko.ServerInterface):
    def __init__(self, server: SshServer) -> None:
        self._server = server

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        known = key.asbytes() == self._server.user_key.asbytes()
        return AUTH_SUCCESSFUL if known else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        if self._server.channels:
            time.sleep(self._server.channels.pop(0))
        return OPEN_SUCCEEDED

    def check_channel_env_request(
        self, channel: paramiko.Channel, name: bytes, value: bytes
    ) -> bool:
        return False

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        arguments = (channel, command.decode())
        threading.Thread(target=self._server.work, args=arguments, daemon=True).start()
        return True


@contextlib.contextmanager
def serving(home: Path, address: str = ADDRESS) -> Iterator[SshServer]:
    """A server for the time of the block."""
    server = SshServer(home, address)
    try:
        yield server
    finally:
        server.close()
