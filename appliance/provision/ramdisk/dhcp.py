"""Finds DHCP servers in the network of the installation. It asks them, but accepts no offer (RFC 2131)."""

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
    (0x28, 0, 0, 6),  # only the first fragment has ports
    (0x45, 4, 0, 0x1FFF),
    (0xB1, 0, 0, 0),  # the length of its header
    (0x48, 0, 0, 2),  # its destination port
    (0x15, 0, 1, CLIENT_PORT),
    (0x06, 0, 0, 0xFFFF),
    (0x06, 0, 0, 0),
)
"""The filter of a port's IPv4 packets, for the kernel (linux/filter.h: code, jump if true, jump if false, number)."""
ASKED_AT = (0.0, 3.0)
"""A port that just came up may not receive anything yet: its switch is still learning."""
WAIT_S = 8.0
"""Servers probe an address for some seconds before they offer it."""
MOST, KEPT = 4, 256


@dataclass(frozen=True)
class Offer:
    """The offer of one server. ``mac``: of the sender, or of a relay. ``boots``: it also names a boot program."""

    server: str
    mac: str
    address: str
    boots: bool

    def __str__(self) -> str:
        return f"{self.server} {self.mac} {self.address}" + (" boots" if self.boots else "")


class Asking:
    """Asks in the background."""

    def __init__(self, port: str, mac: str, wait: float = WAIT_S) -> None:
        self._found: Sequence[Offer] | None = None
        self._thread = threading.Thread(target=self._work, args=(port, mac, wait), daemon=True)
        self._thread.start()

    def _work(self, port: str, mac: str, wait: float) -> None:
        with suppress(OSError):
            self._found = offers(port, mac, wait)

    def answer(self) -> str:
        """Every server, at most the first few; "none", or "unknown" if asking failed."""
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
        # The kernel buffers them meanwhile: a thread next to those that write the image may not run for seconds.
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
    """Packets for a DHCP client, and nothing else: the image arrives there, too, and would crowd out the answers."""
    program = b"".join(struct.pack("=HBBI", *step) for step in ANSWERS)
    kept = ctypes.create_string_buffer(program, len(program))
    line = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)  # it receives nothing yet
    try:
        told = struct.pack("@HP", len(ANSWERS), ctypes.addressof(kept))
        line.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, told)
        line.bind((port, IPV4))
    except OSError:
        line.close()
        raise
    return line


def discover(mac: str, number: bytes) -> bytes:
    """The request, as an IPv4 packet; the answer must be a broadcast, because the port has another address."""
    hardware = bytes.fromhex(mac.replace(":", ""))
    nobody = bytes(4)
    asked = BOOTP.pack(
        BOOT_REQUEST, 1, 6, 0, number, 0, BROADCAST, nobody, nobody, nobody, nobody, hardware, b"", b"", COOKIE
    ) + bytes((KIND, 1, DISCOVER, END))  # fmt: skip
    asked += bytes(300 - len(asked))  # RFC 1542, 2.1: some servers require this minimum
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
    """The offer in a packet; None for anything else."""
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
    """RFC 2132, up to the first truncated option."""
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
