"""A key of one's own, a request for it, and answers that are for another key or none at all."""

import base64

import pytest

from appliance.adapters.certificates import KeyPair
from appliance.errors import ApplianceError
from tests.support.authority import Authority


def test_a_request_asks_for_a_clients_certificate_and_is_signed_for_its_key() -> None:
    pair, authority = KeyPair.fresh(), Authority()
    found = pair.signed(authority.pem + authority.sign(pair.request("ada", "appliance:admins"), 7))
    assert found.authority == authority.pem
    assert authority.names(found.certificate) == {"ada", "appliance:admins"}
    assert "PRIVATE KEY" in pair.pem
    assert pair.pem != KeyPair.fresh().pem


def test_an_authority_of_an_old_kubeadm_numbered_0_is_taken_without_a_warning() -> None:
    pair = KeyPair.fresh()
    with pytest.warns(UserWarning, match="serial number"):
        authority = Authority(serial=0)
    found = pair.signed(authority.pem + authority.sign(pair.request("ada", "x"), 7))
    assert found.authority == authority.pem


@pytest.mark.parametrize("answer", ["", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_an_answer_without_a_certificate_is_refused(answer: str) -> None:
    with pytest.raises(ApplianceError, match="no certificate was returned"):
        KeyPair.fresh().signed(answer)


def test_a_certificate_for_another_key_is_refused() -> None:
    authority = Authority()
    other = authority.sign(KeyPair.fresh().request("ada", "x"), 7)
    with pytest.raises(ApplianceError, match="another key"):
        KeyPair.fresh().signed(authority.pem + other)


def test_a_request_does_not_carry_the_private_key() -> None:
    pair = KeyPair.fresh()
    request = pair.request("ada", "x")
    assert "PRIVATE" not in request
    assert base64.b64encode(pair.pem.encode()).decode()[:40] not in request
