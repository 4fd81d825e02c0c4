"""Who hands out addresses where this machine is installed. They are asked, and nothing of theirs is taken (RFC 2131)."""

import ctypes
import socket
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address
from secrets import token_bytes

SERVER_PORT, CLIENT_PORT = 67, 68
IPV4, UDP = 0x0800, 17
COOKIE = b"\x63\x82\x53\x63"
BOOT_REQUEST, BOOT_REPLY = 1, 2
DISCOVER, OFFER = 1, 2
BROADCAST = 0x8000
KIND, SERVER, BOOT_FILE, PAD, END = 53, 54, 67, 0, 255
BOOTP = struct.Struct("!4B4s2H4s4s4s4s16s64s128s4s")
SO_ATTACH_FILTER = 26
"""asm-generic/socket.h."""
ANSWERS = (
    (0x30, 0, 0, 9),  # its protocol
    (0x15, 0, 6, UDP),
    (0x28, 0, 0, 6),  # of a fragment only the first has ports
    (0x45, 4, 0, 0x1FFF),
    (0xB1, 0, 0, 0),  # the length of its head
    (0x48, 0, 0, 2),  # its port there
    (0x15, 0, 1, CLIENT_PORT),
    (0x06, 0, 0, 0xFFFF),
    (0x06, 0, 0, 0),
)
"""What of a port's IPv4 packets is heard, in the kernel's words (linux/filter.h: code, steps if true, if false, number)."""
ASKED_AT = (0.0, 3.0)
"""A port that was just raised may not be heard yet: its switch learns."""
WAIT_S = 8.0
"""Servers try an address for some seconds before they offer it."""
MOST, KEPT = 4, 256


@dataclass(frozen=True)
class Offer:
    """What one server offers. ``mac``: who sent it, a relay where there is one. ``boots``: it names a program to start, too."""

    server: str
    mac: str
    address: str
    boots: bool

    def __str__(self) -> str:
        return f"{self.server} {self.mac} {self.address}" + (" boots" if self.boots else "")


class Asking:
    """Asks beside all else."""

    def __init__(self, port: str, mac: str, wait: float = WAIT_S) -> None:
        self._found: Sequence[Offer] | None = None
        self._thread = threading.Thread(target=self._work, args=(port, mac, wait), daemon=True)
        self._thread.start()

    def _work(self, port: str, mac: str, wait: float) -> None:
        with suppress(OSError):
            self._found = offers(port, mac, wait)

    def answer(self) -> str:
        """Every server, the first few of them; "none", or "unknown" where it could not be asked."""
        self._thread.join(2 * WAIT_S)
        if self._found is None:
            return "unknown"
        return ", ".join(str(one) for one in self._found[:MOST]) or "none"


def offers(port: str, mac: str, wait: float = WAIT_S) -> list[Offer]:
    """Each server that answers on a port, once. Raises OSError."""
    number = token_bytes(4)
    asked = discover(mac, number)
    found: dict[tuple[str, str], Offer] = {}
    with heard(port) as line:
        began = time.monotonic()
        for at in ASKED_AT:
            _until(began + at)
            line.sendto(asked, (port, IPV4, 0, 0, b"\xff" * 6))
        # The kernel keeps them meanwhile: a thread beside those that write the image may not run for seconds.
        _until(began + wait)
        line.setblocking(False)
        with suppress(BlockingIOError):
            for _ in range(KEPT):
                packet, sender = line.recvfrom(4096)
                if offer := read(packet, number, sender[4].hex(":")):
                    found.setdefault((offer.server, offer.mac), offer)
    return sorted(found.values(), key=str)


def _until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def heard(port: str) -> socket.socket:
    """What comes to a DHCP client there, and nothing else: all of the image does, too, and answers would be lost in it."""
    program = b"".join(struct.pack("=HBBI", *step) for step in ANSWERS)
    kept = ctypes.create_string_buffer(program, len(program))
    line = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)  # it hears nothing yet
    try:
        told = struct.pack("@HP", len(ANSWERS), ctypes.addressof(kept))
        line.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, told)
        line.bind((port, IPV4))
    except OSError:
        line.close()
        raise
    return line


def discover(mac: str, number: bytes) -> bytes:
    """The question, as an IPv4 packet; the answer is to come as a broadcast, for the port has another address."""
    hardware = bytes.fromhex(mac.replace(":", ""))
    nobody = bytes(4)
    asked = BOOTP.pack(
        BOOT_REQUEST, 1, 6, 0, number, 0, BROADCAST, nobody, nobody, nobody, nobody, hardware, b"", b"", COOKIE
    ) + bytes((KIND, 1, DISCOVER, END))  # fmt: skip
    asked += bytes(300 - len(asked))  # RFC 1542, 2.1: some servers want no less
    datagram = struct.pack("!4H", CLIENT_PORT, SERVER_PORT, 8 + len(asked), 0) + asked
    head = struct.pack("!2B3H2BH", 0x45, 0, 20 + len(datagram), 0, 0, 64, UDP, 0) + nobody + b"\xff" * 4  # fmt: skip
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + datagram


def checksum(head: bytes) -> int:
    """RFC 1071."""
    total: int = sum(struct.unpack(f"!{len(head) // 2}H", head))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def read(packet: bytes, number: bytes, mac: str) -> Offer | None:
    """The offer that a packet carries; None where it is anything else."""
    if len(packet) < 20 or packet[0] >> 4 != 4 or packet[9] != UDP:
        return None
    datagram = packet[4 * (packet[0] & 15) :]
    if len(datagram) < 8 + BOOTP.size or struct.unpack("!2H", datagram[:4]) != (SERVER_PORT, CLIENT_PORT):  # fmt: skip
        return None
    fields = BOOTP.unpack_from(datagram, 8)
    if (fields[0], fields[4], fields[-1]) != (BOOT_REPLY, number, COOKIE):
        return None
    told = options(datagram[8 + BOOTP.size :])
    server = told.get(SERVER, b"")
    if told.get(KIND) != bytes((OFFER,)) or len(server) != 4:
        return None
    boots = BOOT_FILE in told or any(fields[13])
    return Offer(str(IPv4Address(server)), mac, str(IPv4Address(fields[8])), boots)


def options(left: bytes) -> dict[int, bytes]:
    """RFC 2132, as far as they are whole."""
    found: dict[int, bytes] = {}
    while left and left[0] != END:
        if left[0] == PAD:
            left = left[1:]
            continue
        if len(left) < 2 or len(left) < 2 + left[1]:
            break
        found.setdefault(left[0], left[2 : 2 + left[1]])
        left = left[2 + left[1] :]
    return found
