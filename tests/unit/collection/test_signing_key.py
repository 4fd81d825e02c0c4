"""A repository's signing key is known by its fingerprint."""

import io
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from appliance.adapters import process

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


@pytest.fixture(scope="module")
def keyring(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[str, bytes]]:
    """Makes a real key that lives as long as said; its fingerprint and its armoured text."""

    def make(life: str) -> tuple[str, bytes]:
        home = tmp_path_factory.mktemp("gnupg")
        home.chmod(0o700)
        gpg = ("gpg", "--homedir", str(home), "--batch", "--quiet", "--passphrase", "")
        process.run((*gpg, "--quick-generate-key", "nobody at all", "ed25519", "sign", life))
        told = process.run((*gpg, "--with-colons", "--list-keys")).stdout
        text = process.run((*gpg, "--armor", "--export")).stdout.encode()
        process.run(("gpgconf", "--homedir", str(home), "--kill", "all"), check=False)
        own = next(line for line in told.splitlines() if line.startswith("fpr:"))
        return own.split(":")[9], text

    return make


@pytest.mark.parametrize(("life", "days"), [("never", 0), ("20d", 20), ("2y", 730)])
def test_the_end_of_a_keys_life_is_read(
    plugin: Callable[[str], ModuleType],
    keyring: Callable[[str], tuple[str, bytes]],
    life: str,
    days: int,
) -> None:
    key = plugin("modules.signing_key")
    found = key.expires(key.unarmoured(keyring(life)[1]))
    assert round((found - time.time()) / 86400) == days if days else found == 0


@pytest.mark.parametrize(
    ("life", "fetched", "kept"), [("2y", False, True), ("20d", True, False), ("20d", None, True)]
)
def test_a_key_about_to_expire_is_fetched_again_and_kept_where_that_fails(
    plugin: Callable[[str], ModuleType],
    run: Callable[..., dict[str, Any]],
    keyring: Callable[[str], tuple[str, bytes]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    life: str,
    fetched: bool | None,
    kept: bool,
) -> None:
    fingerprint, old = keyring(life)
    path, new, asked = tmp_path / "key.asc", old + b"\n", []
    path.write_bytes(old)

    def answer(url: str, **_: object) -> io.BytesIO:
        asked.append(url)
        if fetched is None:
            raise OSError("no route")
        return io.BytesIO(new)

    monkeypatch.setattr(plugin("modules.signing_key"), "open_url", answer)
    given = {"url": "http://m/key", "fingerprint": fingerprint, "path": str(path)}
    assert run("signing_key", **given)["changed"] is not kept
    assert bool(asked) is (fetched is not False)
    assert path.read_bytes() == (old if kept else new)
