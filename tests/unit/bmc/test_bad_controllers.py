"""Controllers that are wrong, ill or hostile: each is one line with cause and remedy, and the others are unharmed."""

import gzip
import json
import resource
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.adapters.redfish import LARGEST, Controller, Patience
from appliance.bmc.inventory import inventory
from appliance.config.secrets import Secret
from appliance.engine.look import controllers
from appliance.engine.look.controllers import ask
from appliance.engine.look.gather import Unanswered
from appliance.models.bmc import BmcFacts
from tests.redfish_server import (
    PASSWORD,
    QUICK,
    SESSIONS,
    TOKEN,
    Bmc,
    Handler,
    certificate,
    serve,
    tree,
)

SYSTEM = "/redfish/v1/Systems/system"
CHASSIS = "/redfish/v1/Chassis/chassis"


def asked(bmc: Bmc, patience: Patience = QUICK) -> BmcFacts | Unanswered:
    found = ask({"gpu-1": bmc.known()}, patience)
    return found.facts.get("gpu-1") or found.unanswered["gpu-1"]


def refused(found: BmcFacts | Unanswered) -> tuple[str, str]:
    assert isinstance(found, Unanswered)
    assert "\n" not in found.cause
    assert found.fix
    assert PASSWORD not in found.cause + found.fix
    return found.cause, found.fix


def of(pem: Path, **before: Callable[[Handler], None]) -> Bmc:
    places = {"root": "/redfish/v1/", "systems": "/redfish/v1/Systems", "system": SYSTEM}
    places |= {"chassis": CHASSIS, "processors": f"{SYSTEM}/Processors"}
    return Bmc(tree("openbmc"), pem, before={places[k]: v for k, v in before.items()})


def test_a_wrong_password_is_tried_once(pem: Path) -> None:
    with serve(of(pem)) as bmc:
        found = ask({"gpu-1": bmc.known(password=Secret("wrong"))}, QUICK)
        assert [what for what in bmc.asked if what[0] == "POST"] == [("POST", SESSIONS)]
    cause, fix = refused(found.unanswered["gpu-1"])
    assert cause == "its BMC rejected user admin or its password"
    assert "hosts[].bmc.password" in fix or "password in site.yml" in fix


def test_a_wrong_password_is_told_where_the_service_has_no_sessions(pem: Path) -> None:
    with serve(Bmc(tree("gigabyte-megarac"), pem)) as bmc:
        found = ask({"gpu-1": bmc.known(password=Secret("wrong"))}, QUICK)
    assert "rejected user admin or its password" in refused(found.unanswered["gpu-1"])[0]


def test_a_changed_certificate_gets_no_password(pem: Path, tmp_path: Path) -> None:
    other = certificate(tmp_path, "other")
    with serve(of(other)) as bmc:
        known = Bmc(bmc.tree, pem, port=bmc.port)
        cause, fix = refused(asked(known))
        assert bmc.asked == []
    assert "differs from the pinned one; it shows SHA256 " in cause
    assert "appliance trust --bmc" in fix


def test_without_a_pin_nothing_is_sent(pem: Path) -> None:
    with serve(of(pem)) as bmc:
        found = ask({"gpu-1": bmc.known(fingerprint="")}, QUICK)
        assert bmc.asked == []
    assert refused(found.unanswered["gpu-1"])[1] == "compare and pin it: appliance trust --bmc"


def test_an_authority_vouches_for_its_own_addresses_only(pem: Path, tmp_path: Path) -> None:
    elsewhere = certificate(tmp_path, "elsewhere", "192.0.2.1")
    with serve(of(pem)) as good, serve(of(elsewhere)) as bad, serve(of(elsewhere)) as foreign:
        found = ask(
            {
                "good": good.known(fingerprint="", authority=pem),
                "bad": bad.known(fingerprint="", authority=elsewhere),
                "foreign": foreign.known(fingerprint="", authority=pem),
            },
            QUICK,
        )
        assert (bad.asked, foreign.asked) == ([], [])
    assert set(found.facts) == {"good"}
    for name in ("bad", "foreign"):
        assert "signed for it" in refused(found.unanswered[name])[0]


def failing(times: int, status: int = 500) -> Callable[[Handler], None]:
    left = [times]

    def answer(handler: Handler) -> None:
        left[0] -= 1
        if left[0] >= 0:
            handler.say(status, {"error": {"message": "busy"}})
        else:
            handler.say(200, handler.bmc.tree[handler.path])

    return answer


def test_a_controller_that_recovers_is_read(pem: Path) -> None:
    with serve(of(pem, systems=failing(2), chassis=failing(3, 503))) as bmc:
        found = asked(bmc)
    assert isinstance(found, BmcFacts)
    assert "busy" not in str(found.unread)


def test_one_resource_that_stays_ill_is_a_gap(pem: Path) -> None:
    with serve(of(pem, processors=failing(99))) as bmc:
        found = asked(bmc)
    assert isinstance(found, BmcFacts)
    assert found.unread["processors"] == f"{SYSTEM}/Processors answers 500: busy"


@pytest.mark.parametrize(
    "body", [b"[1]", b'{"error": "no"}', b'{"error": {"@Message.ExtendedInfo": ["x"]}}', b"<html>"]
)
def test_errors_of_any_form_are_read(body: bytes, pem: Path) -> None:
    with serve(of(pem, systems=lambda h: h.raw(500, body))) as bmc:
        assert "answers 500" in refused(asked(bmc))[0]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"<html>router</html>", "it is not JSON"),
        (b"[]", "it has no fields"),
        (b'{"Name": "printer"}', "it lists no systems"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"Systems": {}, "Systems": {}}', "is in it twice"),
    ],
)
def test_what_is_no_redfish_service_is_told_so(body: bytes, why: str, pem: Path) -> None:
    with serve(of(pem, root=lambda h: h.raw(200, body))) as bmc:
        cause, _ = refused(asked(bmc))
        assert all(method == "GET" for method, _ in bmc.asked)
    assert "is not a Redfish service" in cause
    assert why in cause


def test_a_redirect_to_another_machine_is_refused(pem: Path) -> None:
    with serve(of(pem)) as other:
        place = f"https://127.0.0.1:{other.port}/redfish/v1/Systems"
        with serve(of(pem, systems=lambda h: h.raw(302, b"", {"Location": place}))) as bmc:
            cause, _ = refused(asked(bmc))
        assert other.asked == []
    assert f"it redirects to another machine, 127.0.0.1:{other.port}" in cause


def test_a_redirect_on_the_same_machine_is_followed(pem: Path) -> None:
    def moved(handler: Handler) -> None:
        handler.raw(308, b"", {"Location": f"{CHASSIS}?moved"})

    with serve(of(pem, chassis=moved)) as bmc:
        bmc.before[f"{CHASSIS}?moved"] = lambda h: h.say(200, h.bmc.tree[CHASSIS])
        found = asked(bmc)
    assert isinstance(found, BmcFacts)
    assert CHASSIS not in str(found.unread)


@pytest.mark.parametrize(
    "place",
    [
        "https://[x/",
        "https://[::1",
        "https://\u00ad\u2100/",
        "/\xed\xa0\x80",
        "https://127.0.0.1:x/",
    ],
)
def test_a_place_that_is_none_is_a_failure_of_that_controller(place: str, pem: Path) -> None:
    def moved(handler: Handler) -> None:
        handler.send_response(302)
        handler._headers_buffer.append(f"Location: {place}\r\n".encode())  # type: ignore[attr-defined]
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    with serve(of(pem, systems=moved)) as bad, serve(of(pem)) as good:
        found = ask({"bad": bad.known(), "good": good.known()}, QUICK)
    assert set(found.facts) == {"good"}
    assert refused(found.unanswered["bad"])[0]


def test_a_session_at_no_place_is_a_session(pem: Path) -> None:
    def made(handler: Handler) -> None:
        handler.say(201, {}, {"X-Auth-Token": TOKEN, "Location": "https://[x/"})

    with serve(of(pem)) as bmc:
        bmc.before[SESSIONS] = made
        assert isinstance(asked(bmc), BmcFacts)


def test_a_body_that_breaks_off_is_a_gap(pem: Path) -> None:
    def broken(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"ffffffffffffffff\r\n{}")
        handler.close_connection = True

    with serve(of(pem, processors=broken)) as bmc:
        found = asked(bmc)
    assert isinstance(found, BmcFacts)
    assert "cannot be read" in found.unread["processors"]


def test_what_nobody_foresaw_of_one_controller_ends_no_look_at_the_others(
    pem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(known: Controller, patience: Patience | None) -> BmcFacts:
        if known.host == "bad":
            raise AttributeError("a list has no keys")
        return inventory(known, patience)

    monkeypatch.setattr(controllers, "inventory", read)
    with serve(of(pem)) as bmc:
        known = bmc.known()
        found = ask({"bad": replace(known, host="bad"), "good": known}, QUICK)
    assert set(found.facts) == {"good"}
    assert "AttributeError: a list has no keys" in refused(found.unanswered["bad"])[0]


def test_an_answer_without_an_end_is_cut(pem: Path) -> None:
    def flood(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        for _ in range(LARGEST >> 19):
            handler.wfile.write(b" " * (1 << 20))

    with serve(of(pem, processors=flood)) as bmc:
        found = asked(bmc)
    assert isinstance(found, BmcFacts)
    assert "larger than 8 MiB" in found.unread["processors"]


@pytest.mark.parametrize(
    ("encoding", "why"),
    [
        ("gzip", "larger than 8 MiB"),
        ("gzip, gzip", "an answer is encoded as gzip, gzip"),
        ("br", "an answer is encoded as br"),
    ],
)
def test_an_answer_that_unpacks_without_an_end_is_cut(pem: Path, encoding: str, why: str) -> None:
    """512 MiB in half a MiB: memory may not grow with it."""
    packed = packed_zeros(512 << 20)

    def bomb(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Encoding", encoding)
        handler.send_header("Content-Length", str(len(packed)))
        handler.end_headers()
        handler.wfile.write(packed)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with serve(of(pem, processors=bomb)) as bmc:
        found = asked(bmc)
    assert isinstance(found, BmcFacts)
    assert why in found.unread["processors"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 << 10


def packed_zeros(size: int) -> bytes:
    by = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = bytes(1 << 20)
    return b"".join(by.compress(piece) for _ in range(size >> 20)) + by.flush()


def test_a_packed_answer_is_read(pem: Path) -> None:
    def packed(handler: Handler) -> None:
        body = gzip.compress(json.dumps({"Members": []}).encode())
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    with serve(of(pem, processors=packed)) as bmc:
        found = asked(bmc)
    assert isinstance(found, BmcFacts)
    assert "processors" not in found.unread


def drip(handler: Handler) -> None:
    """A byte at a time of headers that never end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:
        handler.wfile.write(b"x")
        handler.wfile.flush()
        time.sleep(0.02)


def test_a_drip_of_bytes_ends_with_the_conversation(pem: Path) -> None:
    with serve(of(pem, root=drip)) as bmc:
        cause, _ = refused(asked(bmc, Patience(whole=0.6, retries=1, pause=0.01)))
    assert cause == "its BMC takes too long"


def test_what_was_read_before_the_end_is_kept(pem: Path) -> None:
    with serve(of(pem, processors=drip)) as bmc:
        found = asked(bmc, Patience(whole=1.5, retries=1, pause=0.01))
    assert isinstance(found, BmcFacts)
    assert found.machine.power == "Off"
    assert found.unread["memory"] == "its BMC takes too long"


@contextmanager
def silent() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken: list[socket.socket] = []

        def take() -> None:
            with ExitStack() as stack:
                while True:
                    try:
                        taken.append(stack.enter_context(server.accept()[0]))
                    except OSError:
                        return

        threading.Thread(target=take, daemon=True).start()
        yield int(server.getsockname()[1])


def test_a_silent_controller_costs_the_others_nothing(pem: Path) -> None:
    patience = Patience(whole=1.0, retries=1, pause=0.01)
    with silent() as port, serve(of(pem)) as well:
        dead = Bmc(well.tree, pem, port=port)
        found = ask({"gpu-1": dead.known(), "gpu-2": well.known("gpu-2")}, patience)
    assert set(found.facts) == {"gpu-2"}
    assert "too long" in refused(found.unanswered["gpu-1"])[0]


def test_a_closed_port_is_told(pem: Path) -> None:
    with serve(of(pem)) as bmc:
        pass
    cause, _ = refused(asked(bmc, Patience(whole=5.0, retries=1, pause=0.01)))
    assert cause.endswith("cannot be reached: connection refused")


@pytest.mark.parametrize(
    "place", ["http://198.51.100.1/x", "//198.51.100.1/x", "file:///etc/passwd", "redfish", ""]
)
def test_a_link_to_elsewhere_is_not_followed(place: str, pem: Path) -> None:
    documents = tree("openbmc")
    documents["/redfish/v1/Systems"]["Members"].append({"@odata.id": place})
    with serve(Bmc(documents, pem)) as bmc:
        found = asked(bmc)
    assert isinstance(found, BmcFacts)
    assert "system" in found.unread


def test_a_collection_that_leads_back_to_itself_ends(pem: Path) -> None:
    documents = tree("openbmc")
    processors = documents[f"{SYSTEM}/Processors"]
    processors["Members@odata.nextLink"] = f"{SYSTEM}/Processors"
    with serve(Bmc(documents, pem)) as bmc:
        assert isinstance(asked(bmc), BmcFacts)


def test_pages_without_an_end_are_a_gap(pem: Path) -> None:
    def next_page(handler: Handler) -> None:
        number = int(handler.path.partition("=")[2] or 0) + 1
        path = f"{SYSTEM}/Processors?page={number}"
        handler.bmc.before[path] = next_page
        handler.say(200, {"Members": [], "Members@odata.nextLink": path})

    with serve(of(pem, processors=next_page)) as bmc:
        found = asked(bmc)
    assert isinstance(found, BmcFacts)
    assert found.unread["processors"].endswith("never ends")


@pytest.mark.parametrize("first", [True, False])
def test_a_controller_of_several_machines_is_refused_whatever_their_order(
    pem: Path, first: bool
) -> None:
    documents = tree("openbmc")
    other = "/redfish/v1/Systems/node2"
    documents[other] = {**documents[SYSTEM], "@odata.id": other, "Id": "node2"}
    listed = documents["/redfish/v1/Systems"]["Members"]
    listed.insert(0 if first else len(listed), {"@odata.id": other})
    with serve(Bmc(documents, pem)) as bmc:
        cause, fix = refused(asked(bmc))
    assert "shows 2 machines" in cause
    assert "node2" in cause
    assert "system" in cause
    assert "hosts[].bmc.address" in fix


def test_what_runs_on_a_machine_is_no_second_one(pem: Path) -> None:
    documents = tree("openbmc")
    other = "/redfish/v1/Systems/hypervisor"
    documents[other] = {"@odata.id": other, "Id": "hypervisor", "SystemType": "OS"}
    documents["/redfish/v1/Systems"]["Members"].insert(0, {"@odata.id": other})
    with serve(Bmc(documents, pem)) as bmc:
        assert isinstance(asked(bmc), BmcFacts)
