"""Limits what a host can make this machine read over SSH: packet size, bytes and packets before and after the login.

paramiko reads a packet of any size that its first four bytes announce, up to 2 GiB, before it checks the sender.
"""

import socket
import time
from typing import Any, ClassVar

import paramiko  # noqa: TID251 - this module is part of the door
from paramiko.packet import Packetizer  # noqa: TID251 - the same door

LARGEST_PACKET = 64 << 10
"""Bytes. RFC 4253 requires 35,000, and our channels use up to 32 KiB at a time."""
LONGEST_BANNER = 16 << 10
"""Bytes before and including the line "SSH-2.0-..."; RFC 4253 allows other lines before it, each of up to 255 bytes."""
BEFORE_LOGIN = (1 << 20, 2_000)
"""Bytes and packets until the login is complete. A login takes about 5 KB in 15 packets."""
PER_COMMAND = (40 << 20, 250_000)
"""Bytes and packets for each running command: two streams of ssh.LONGEST_ANSWER, plus protocol overhead."""
KEY_EXCHANGES = 256
"""Key exchanges per login and per command; sshd's RekeyLimit requests one after some bytes or time."""
WRITE_S = 30.0
"""Seconds for a host to accept one packet; a healthy host needs no time."""
WINDOW = 2 << 20
"""Unread bytes of a stream. paramiko announces this window to a host, but does not enforce it."""


class TooMuch(paramiko.SSHException):
    """The host sent more than a healthy host would."""


_PACKETIZER: Any = Packetizer
_TRANSPORT: Any = paramiko.Transport
"""The stubs leave out private attributes."""


class _Packetizer(Packetizer):
    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._sock = sock
        self._bytes, self._packets = BEFORE_LOGIN
        self._banner = LONGEST_BANNER

    def allow(self, commands: int) -> None:
        """From now on allows as much as this many commands need."""
        self._bytes, self._packets = (bound * commands for bound in PER_COMMAND)

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """This many bytes. Raises TooMuch for a packet above the limit, or after the total limit."""
        if not 0 <= n <= LARGEST_PACKET:
            raise TooMuch(f"it announced a packet of {n} bytes; {LARGEST_PACKET} is the limit")
        self._bytes -= n
        if self._bytes < 0:
            raise TooMuch("it sent more than the protocol or an answer needs")
        read: bytes = super().read_all(n, check_rekey)
        return read

    def write_all(self, out: Any) -> None:
        """Sends all of it. Raises EOFError if the host does not accept it in time; paramiko would wait forever."""
        end = time.monotonic() + WRITE_S
        left = memoryview(out)
        while left:
            try:
                sent = self._sock.send(left)
            except TimeoutError:
                sent = 0
            except OSError:
                raise EOFError from None
            left = left[sent:]
            if left and (self.closed or time.monotonic() > end):
                raise EOFError

    def read_message(self) -> tuple[int, Any]:
        """The next packet. Raises TooMuch after too many packets."""
        self._packets -= 1
        if self._packets < 0:
            raise TooMuch("it sent more packets than the protocol or an answer needs")
        message: tuple[int, Any] = super().read_message()
        return message

    def _read_timeout(self, timeout: float) -> bytes:
        """A piece of the banner, the only data read this way."""
        self._banner -= 128
        if self._banner < 0:
            raise TooMuch(f": more than {LONGEST_BANNER} bytes before it")
        read: bytes = _PACKETIZER._read_timeout(self, timeout)
        return read


def _fed(channel: Any, message: paramiko.Message) -> None:
    channel._feed(message)
    _within(channel)


def _fed_extended(channel: Any, message: paramiko.Message) -> None:
    channel._feed_extended(message)
    _within(channel)


def _within(channel: paramiko.Channel) -> None:
    if max(len(channel.in_buffer), len(channel.in_stderr_buffer)) > WINDOW + LARGEST_PACKET:
        raise TooMuch("it sent more than the window it was given")


class BoundedTransport(paramiko.Transport):
    """paramiko's transport, with limits on what a host can make it read or store."""

    _channel_handler_table: ClassVar[dict[int, Any]] = {
        **_TRANSPORT._channel_handler_table,
        paramiko.common.MSG_CHANNEL_DATA: _fed,
        paramiko.common.MSG_CHANNEL_EXTENDED_DATA: _fed_extended,
    }

    def __init__(self, sock: socket.socket, **options: Any) -> None:
        super().__init__(sock, default_window_size=WINDOW, packetizer_class=_Packetizer, **options)
        self._exchanges = KEY_EXCHANGES

    def allow(self, commands: int) -> None:
        """Allows what this many commands need, after the login."""
        self._exchanges = KEY_EXCHANGES * commands
        packetizer: Any = self.packetizer
        packetizer.allow(commands)

    def get_exception(self) -> Exception | None:
        """Why it ended. An exception of paramiko in a packet of the host is the host's fault, not a defect."""
        error = super().get_exception()
        if error is None or isinstance(error, (paramiko.SSHException, OSError, EOFError)):
            return error
        return paramiko.SSHException(f"it sent invalid SSH data ({type(error).__name__})")

    def _parse_kex_init(self, message: paramiko.Message) -> None:
        self._exchanges -= 1
        if self._exchanges < 0:
            raise TooMuch("it requested new keys too often")
        _TRANSPORT._parse_kex_init(self, message)
