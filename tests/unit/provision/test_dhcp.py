"""Who hands out addresses: the question, the answers of all kinds, and which of them nobody meant."""

import random
import struct
from ipaddress import IPv4Address

import pytest

from appliance.provision import dhcp as judged
from appliance.provision.ramdisk import dhcp
from appliance.provision.ramdisk.dhcp import BOOTP, COOKIE, Offer
from tests.support.media_site import site

NUMBER = b"abcd"
MAC = "02:00:00:00:00:66"
SERVER = IPv4Address("10.0.0.66")


def answer(
    *,
    number: bytes = NUMBER,
    kind: int = 2,
    operation: int = 2,
    file: bytes = b"",
    more: bytes = b"",
    ports: tuple[int, int] = (67, 68),
    server: bytes = SERVER.packed,
) -> bytes:
    """An offer of 10.0.0.99, as a server would send it."""
    offered = IPv4Address("10.0.0.99").packed
    fixed = BOOTP.pack(
        operation, 1, 6, 0, number, 0, 0x8000, bytes(4), offered, bytes(4), bytes(4), b"", b"", file, COOKIE
    )  # fmt: skip
    options = bytes((0, 53, 1, kind, 54, len(server))) + server + more + b"\xff"
    datagram = struct.pack("!4H", *ports, 8 + len(fixed) + len(options), 0) + fixed + options
    head = struct.pack("!2B3H2BH4s4s", 0x46, 0, 24 + len(datagram), 0, 0, 64, 17, 0, SERVER.packed, b"\xff" * 4)  # fmt: skip
    return head + bytes(4) + datagram


def test_an_offer_names_its_server_its_sender_and_the_address() -> None:
    offer = dhcp.read(answer(), NUMBER, MAC)
    assert offer == Offer("10.0.0.66", MAC, "10.0.0.99", boots=False)
    assert str(offer) == f"10.0.0.66 {MAC} 10.0.0.99"


@pytest.mark.parametrize("told", [{"file": b"pxelinux.0"}, {"more": b"\x43\x01x"}])
def test_a_server_that_names_a_program_to_start_is_known(told: dict[str, bytes]) -> None:
    offer = dhcp.read(answer(**told), NUMBER, MAC)  # type: ignore[arg-type]
    assert offer
    assert offer.boots


@pytest.mark.parametrize(
    "packet",
    [
        answer(number=b"else"),
        answer(kind=5),
        answer(operation=1),
        answer(ports=(68, 67)),
        answer(server=b"\x0a\x00"),
        answer().replace(COOKIE, b"none"),
        b"\x60" + answer()[1:],
        answer()[:9] + b"\x06" + answer()[10:],
        dhcp.discover(MAC, NUMBER),
        b"",
    ],
    ids=["another's", "acknowledged", "asked", "asking", "no server", "no cookie", "IPv6", "TCP", "own", "empty"],
)  # fmt: skip
def test_what_is_no_offer_to_this_machine_is_none(packet: bytes) -> None:
    assert dhcp.read(packet, NUMBER, MAC) is None


def test_no_packet_of_anybodys_ends_the_reading() -> None:
    whole, chance = answer(file=b"x", more=b"\x0c\xff12"), random.Random(4)
    for end in range(len(whole)):
        dhcp.read(whole[:end], NUMBER, MAC)
    for _ in range(2000):
        changed = bytearray(whole)
        for _ in range(3):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        dhcp.read(bytes(changed), NUMBER, MAC)


def test_the_question_is_a_whole_packet_that_asks_for_a_broadcast() -> None:
    packet = dhcp.discover("52:54:00:94:07:0b", NUMBER)
    assert dhcp.checksum(packet[:20]) == 0
    assert struct.unpack("!H", packet[2:4])[0] == len(packet)
    fields = BOOTP.unpack_from(packet, 28)
    assert (fields[0], fields[4], fields[6]) == (1, NUMBER, 0x8000)
    assert fields[11][:6].hex(":") == "52:54:00:94:07:0b"
    assert dhcp.options(packet[28 + BOOTP.size :]) == {53: b"\x01"}
    assert len(packet) >= 20 + 8 + 300


def test_a_port_that_cannot_be_asked_is_told_as_unknown() -> None:
    assert dhcp.Asking("not-there", MAC, wait=0.1).answer() == "unknown"


def test_an_installers_word_is_read_and_anything_else_left_out() -> None:
    first, second = Offer("10.0.0.66", MAC, "10.0.0.99", True), Offer("10.0.0.67", MAC, "0.0.0.0", False)  # fmt: skip
    found = judged.servers(f"{first}, {second}")
    assert [(str(one.address), one.boots) for one in found] == [("10.0.0.66", True), ("10.0.0.67", False)]  # fmt: skip
    for said in ("none", "unknown", "", "10.0.0.999 " + str(first)[10:], f"{first} and more", "x" * 300):  # fmt: skip
        assert judged.servers(said) == []


def test_a_server_that_the_site_names_is_no_stranger() -> None:
    made = site()
    found = judged.servers(str(Offer(str(SERVER), MAC, "10.0.0.99", boots=False)))
    assert judged.unexpected_servers(made, found) == found
    assert judged.server_text(made, found[0]).startswith(
        "a DHCP server that is not listed in the site"
    )
    management = made.networks["management"].model_copy(update={"dhcp": (SERVER,)})
    named = made.model_copy(update={"networks": {**made.networks, "management": management}})
    assert judged.unexpected_servers(named, found) == []
    (other,) = judged.unexpected_servers(named, judged.servers(str(Offer("10.0.0.67", MAC, "0.0.0.0", boots=False))))  # fmt: skip
    assert judged.server_text(named, other).startswith("another DHCP server")


def test_an_offered_address_of_another_host_and_a_system_to_start_are_told() -> None:
    made = site()
    host = made.hosts[-1]
    (one,) = judged.servers(str(Offer(str(SERVER), MAC, str(host.address), boots=True)))
    assert judged.server_text(made, one).endswith(
        f"it offers {host.address}, the address of {host.name}, and a boot program"
    )
