"""A repository's signing key is known by its fingerprint."""

from collections.abc import Callable
from types import ModuleType

import pytest

KEY = """-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawI0lRYJKwYBBAHaRw8BAQdA0ljTUTAsN2fNPuhcoXQrm5BFj8BG+m09s+LC
nn1O5YW0DW5vYm9keSBhdCBhbGyIkAQTFggAOBYhBDRnTXtgNcyRI+0F/MFYQwnV
xfZUBQJrAjSVAhsDBQsJCAcCBhUKCQgLAgQWAgMBAh4BAheAAAoJEMFYQwnVxfZU
KkQBALrOzGlAN993JMtauAXBqYjsx2Qu2CqT5COLLXNGIv6aAQCP96gAPpqtpAAH
Y7bi9kDcwNajsNjyDq3YMWD4mCBtBg==
=lXbx
-----END PGP PUBLIC KEY BLOCK-----
"""
FINGERPRINT = "34674D7B6035CC9123ED05FCC1584309D5C5F654"


def test_a_key_is_known_by_its_fingerprint_armoured_or_not(
    plugin: Callable[[str], ModuleType],
) -> None:
    key = plugin("modules.signing_key")
    packets = key.unarmoured(KEY.encode())
    assert key.fingerprints(packets) == [FINGERPRINT]
    assert key.fingerprints(key.unarmoured(packets)) == [FINGERPRINT]
    assert key.fingerprints(packets + packets) == [FINGERPRINT] * 2


@pytest.mark.parametrize("text", [b"", b"<html>404</html>", b"\x99\xff\xff\4", b"\xc6\xff"])
def test_what_is_no_key_has_no_fingerprint(
    text: bytes, plugin: Callable[[str], ModuleType]
) -> None:
    key = plugin("modules.signing_key")
    assert FINGERPRINT not in key.fingerprints(key.unarmoured(text))
