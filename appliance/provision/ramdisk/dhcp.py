"""Who hands out addresses where this machine is installed. They are asked, and nothing of theirs is taken (RFC 2131)."""

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
ASKED_AT = (0.0, 3.0)
"""A port that was just raised may not be heard yet: its switch learns."""
WAIT_S = 8.0
"""Servers try an address for some seconds before they offer it."""
MOST = 4


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
    left = list(ASKED_AT)
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(IPV4)) as line:
        line.bind((port, IPV4))
        began = time.monotonic()
        while (since := time.monotonic() - began) < wait:
            if left and since >= left[0]:
                left.pop(0)
                line.sendto(asked, (port, IPV4, 0, 0, b"\xff" * 6))
            line.settimeout(min([wait, *left]) - since + 0.01)
            with suppress(TimeoutError):
                packet, sender = line.recvfrom(4096)
                if offer := read(packet, number, sender[4].hex(":")):
                    found.setdefault((offer.server, offer.mac), offer)
    return sorted(found.values(), key=str)


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
