"""A repository's signing key: what is kept is the one key that was named, and nothing beside it."""

import base64
import io
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from appliance.adapters import process

BEGIN, END = "-----BEGIN PGP PUBLIC KEY BLOCK-----", "-----END PGP PUBLIC KEY BLOCK-----"
KEY = f"""{BEGIN}

mDMEawI0lRYJKwYBBAHaRw8BAQdA0ljTUTAsN2fNPuhcoXQrm5BFj8BG+m09s+LC
nn1O5YW0DW5vYm9keSBhdCBhbGyIkAQTFggAOBYhBDRnTXtgNcyRI+0F/MFYQwnV
xfZUBQJrAjSVAhsDBQsJCAcCBhUKCQgLAgQWAgMBAh4BAheAAAoJEMFYQwnVxfZU
KkQBALrOzGlAN993JMtauAXBqYjsx2Qu2CqT5COLLXNGIv6aAQCP96gAPpqtpAAH
Y7bi9kDcwNajsNjyDq3YMWD4mCBtBg==
=lXbx
{END}
"""
FINGERPRINT = "34674D7B6035CC9123ED05FCC1584309D5C5F654"
OTHER = "1" * 40
Fetch = Callable[..., dict[str, Any]]


@dataclass
class Owner:
    """Somebody with a key of an algorithm, two user ids, a subkey that signs and one that does not."""

    home: Path
    fingerprint: str

    def gpg(self, *words: str) -> str:
        """What gpg prints."""
        known = ("gpg", "--homedir", str(self.home), "--batch", "--quiet", "--passphrase", "")
        return process.run((*known, *words)).stdout

    def exported(self) -> bytes:
        """The armoured key."""
        return self.gpg("--armor", "--export", self.fingerprint).encode()

    def packets(self) -> bytes:
        """The key without armour."""
        return decoded(self.exported())


def decoded(text: bytes) -> bytes:
    lines = text.decode().split("\n\n", 1)[1].split("\n")
    return base64.b64decode("".join(line for line in lines if line and line[0] not in "=-"))


def armoured(*data: bytes) -> bytes:
    """One block with the base64 text of each, padding and all."""
    body = "\n".join(base64.b64encode(one).decode() for one in data)
    return f"{BEGIN}\n\n{body}\n{END}\n".encode()


def told(listing: str) -> str:
    return next(line for line in listing.splitlines() if line.startswith("fpr:")).split(":")[9]


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Owner]]:
    """Makes a real key, once for each set of arguments."""
    made: dict[tuple[str, str, str], Owner] = {}

    def make(who: str = "genuine", kind: str = "ed25519", life: str = "never") -> Owner:
        if (who, kind, life) in made:
            return made[who, kind, life]
        # Its path, and that of the agent's socket, must stay below 108 characters.
        home = tmp_path_factory.mktemp("g")
        home.chmod(0o700)
        one = Owner(home, "")
        one.gpg("--quick-generate-key", who, kind, "sign", life)
        one.fingerprint = told(one.gpg("--with-colons", "--list-keys"))
        one.gpg("--quick-add-uid", one.fingerprint, f"{who} again")
        one.gpg("--quick-add-key", one.fingerprint, "ed25519", "sign", "never")
        one.gpg("--quick-add-key", one.fingerprint, "cv25519", "encr", "never")
        return made.setdefault((who, kind, life), one)

    yield make
    for one in made.values():
        process.run(("gpgconf", "--homedir", str(one.home), "--kill", "all"), check=False)


@pytest.fixture
def fetch(
    plugin: Callable[[str], ModuleType],
    run: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Fetch:
    """Runs the module where the mirror gives these bytes; None where it does not answer."""

    def once(text: bytes | None, fingerprint: str, file: str = "key.asc") -> dict[str, Any]:
        def answer(*_: object, **__: object) -> io.BytesIO:
            if text is None:
                raise OSError("no route")
            return io.BytesIO(text)

        monkeypatch.setattr(plugin("module_utils.resources.signing_key"), "open_url", answer)
        given = {"url": "http://m/key", "fingerprint": fingerprint}
        return run("signing_key", **given, path=str(tmp_path / file))

    return once


@pytest.mark.parametrize("kind", ["ed25519", "rsa2048", "dsa1024"])
@pytest.mark.parametrize("file", ["key.asc", "key.gpg"])
def test_a_key_is_kept_as_gpg_exports_it_armoured_or_not(
    owner: Callable[..., Owner], fetch: Fetch, tmp_path: Path, kind: str, file: str
) -> None:
    one = owner(kind=kind)
    for text in (one.exported(), one.packets(), one.exported().replace(b"\n", b"\r\n")):
        (tmp_path / file).unlink(missing_ok=True)
        assert fetch(text, one.fingerprint, file)["changed"]
        wanted = one.packets() if file.endswith(".gpg") else one.exported()
        assert (tmp_path / file).read_bytes() == wanted
        assert not fetch(None, one.fingerprint, file)["changed"]


def test_of_a_key_whose_signatures_are_not_known_here_no_subkey_is_kept(
    owner: Callable[..., Owner], fetch: Fetch, tmp_path: Path
) -> None:
    one = owner(kind="nistp256")
    assert fetch(one.exported(), one.fingerprint)["changed"]
    shown = one.gpg("--with-colons", "--show-keys", str(tmp_path / "key.asc"))
    rows = [line.split(":")[0] for line in shown.splitlines()]
    assert (rows.count("pub"), rows.count("uid"), rows.count("sub")) == (1, 2, 0)


def forged(genuine: Owner, attacker: Owner) -> bytes:
    """The attacker's subkeys, user ids and signatures as if the genuine key had made them."""
    theirs = attacker.packets()
    theirs = theirs[2 + theirs[1] :]
    old, new = bytes.fromhex(attacker.fingerprint), bytes.fromhex(genuine.fingerprint)
    return theirs.replace(old, new).replace(old[-8:], new[-8:])


def as_subkey(attacker: Owner) -> bytes:
    """The attacker's primary key as a subkey, with its own signatures behind it."""
    return bytes([0x80 | 14 << 2]) + attacker.packets()[1:]


BEYOND: dict[str, Callable[[Owner, Owner], bytes]] = {
    "two blocks": lambda g, a: g.exported() + a.exported(),
    "two blocks, the other first": lambda g, a: a.exported() + g.exported(),
    "text between blocks": lambda g, a: g.exported() + b"\nanother one:\n\n" + a.exported(),
    "a block in a header": lambda g, a: g.exported().replace(b"\n\n", b"\nComment: x\n", 1),
    "two texts in one block": lambda g, a: armoured(g.packets() + b"\x88\0" * 2, a.packets()),
    "two texts, one padded": lambda g, a: armoured(g.packets() + b"\x88\0", a.packets()),
    "two checksums": lambda g, a: g.exported().replace(END.encode(), b"=AAAA\n" + END.encode()),
    "two keys in one block": lambda g, a: armoured(g.packets() + a.packets()),
    "two keys": lambda g, a: g.packets() + a.packets(),
    "two keys, the other first": lambda g, a: a.packets() + g.packets(),
    "twice the same": lambda g, a: g.packets() * 2,
    "armour behind packets": lambda g, a: g.packets() + a.exported(),
    "packets behind armour": lambda g, a: g.exported() + a.packets(),
    "another's primary key as subkey": lambda g, a: g.packets() + as_subkey(a),
    "another's subkeys and user ids": lambda g, a: g.packets() + forged(g, a),
    "a marker before": lambda g, a: b"\xca\3PGP" + g.packets(),
    "a marker between": lambda g, a: g.packets() + b"\xca\3PGP" + a.packets(),
    "a packet in parts": lambda g, a: g.packets() + b"\xc6\xe1" + a.packets()[2:],
    "a packet without length": lambda g, a: g.packets() + b"\x9b" + a.packets()[2:],
    "a packet of the new format": lambda g, a: g.packets() + b"\xc6" + a.packets()[1:],
    "the other's secret key": lambda g, a: g.packets() + b"\x94" + a.packets()[1:],
    "text behind packets": lambda g, a: g.packets() + b"\n\n",
    "zeros behind packets": lambda g, a: g.packets() + bytes(7),
    "cut off": lambda g, a: g.packets()[:-1],
    "a packet longer than the file": lambda g, a: g.packets() + b"\xb9\xff\xff" + a.packets(),
    "nothing": lambda g, a: b"",
    "a page": lambda g, a: b"<html>404</html>",
    "bytes alone": lambda g, a: b"\x99\xff\xff\4",
    "a length alone": lambda g, a: b"\xc6\xff",
    "another": lambda g, a: a.exported(),
    "too large": lambda g, a: g.exported() + b"\n" * (1 << 18),
    "too many packets": lambda g, a: g.packets() + b"\xb4\1x" * 600,
    "many signatures": lambda g, a: g.packets() + b"\x88\x0c\4\x13\x16\x08\0\0\0\0\0\0\0\0" * 400,
}


@pytest.mark.parametrize("what", BEYOND)
def test_what_stands_beside_a_key_is_never_kept(
    owner: Callable[..., Owner], fetch: Fetch, tmp_path: Path, what: str
) -> None:
    genuine, attacker = owner(), owner("attacker")
    answer = fetch(BEYOND[what](genuine, attacker), genuine.fingerprint)
    path = tmp_path / "key.asc"
    if path.exists():
        assert path.read_bytes() == genuine.exported()
    else:
        assert answer["failed"]
        assert "\n" not in answer["msg"]
        assert genuine.fingerprint in answer["msg"]


@pytest.mark.parametrize("what", ["two blocks", "two keys", "another's subkeys and user ids"])
@pytest.mark.parametrize("mirror", [True, False])
def test_a_kept_file_is_judged_by_the_same_rule(
    owner: Callable[..., Owner], fetch: Fetch, tmp_path: Path, what: str, mirror: bool
) -> None:
    genuine, attacker = owner(), owner("attacker")
    path = tmp_path / "key.asc"
    path.write_bytes(BEYOND[what](genuine, attacker))
    answer = fetch(genuine.exported() if mirror else None, genuine.fingerprint)
    if mirror or what == "another's subkeys and user ids":
        assert answer["changed"]
        assert path.read_bytes() == genuine.exported()
    else:
        assert answer["failed"]


def test_signatures_of_others_are_not_kept(
    owner: Callable[..., Owner], fetch: Fetch, tmp_path: Path
) -> None:
    genuine, friend = owner(), owner("friend")
    friend.home.joinpath("theirs").write_bytes(genuine.exported())
    friend.gpg("--import", str(friend.home / "theirs"))
    friend.gpg("--yes", "--quick-sign-key", genuine.fingerprint)
    signed = friend.gpg("--armor", "--export", genuine.fingerprint).encode()
    assert len(signed) > len(genuine.exported())
    fetch(signed, genuine.fingerprint)
    assert (tmp_path / "key.asc").read_bytes() == genuine.exported()


@pytest.mark.parametrize(("life", "days"), [("never", 0), ("20d", 20), ("2y", 730)])
def test_the_end_of_a_keys_life_is_read(
    plugin: Callable[[str], ModuleType], owner: Callable[..., Owner], life: str, days: int
) -> None:
    one = owner(life=life)
    found = plugin("module_utils.openpgp").certificate(one.exported(), one.fingerprint).expires
    assert round((found - time.time()) / 86400) == days if days else found == 0


@pytest.mark.parametrize(
    ("life", "answers", "kept"), [("2y", True, True), ("20d", True, False), ("20d", False, True)]
)
def test_a_key_about_to_expire_is_fetched_again_and_kept_where_that_fails(
    owner: Callable[..., Owner],
    fetch: Fetch,
    tmp_path: Path,
    life: str,
    answers: bool,
    kept: bool,
) -> None:
    one = owner("genuine" if kept else "renewed", life=life)
    new = old = one.exported()
    (tmp_path / "key.asc").write_bytes(old)
    if not kept:
        one.gpg("--quick-set-expire", one.fingerprint, "3y")
        new = one.exported()
    assert fetch(new if answers else None, one.fingerprint)["changed"] is not kept
    assert (tmp_path / "key.asc").read_bytes() == (old if kept else new)


def test_the_key_of_another_is_named(fetch: Fetch, tmp_path: Path) -> None:
    answer = fetch(KEY.encode(), OTHER)
    assert answer["failed"]
    assert FINGERPRINT in answer["msg"]
    assert OTHER in answer["msg"]
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not shutil.which("apt-get"), reason="apt judges here")
def test_apt_trusts_what_is_kept_and_no_one_beside_it(
    owner: Callable[..., Owner], fetch: Fetch, tmp_path: Path
) -> None:
    genuine, attacker, path = owner(), owner("attacker"), tmp_path / "key.asc"
    path.write_bytes(genuine.exported() + attacker.exported())
    assert accepted(attacker, path)
    fetch(genuine.exported(), genuine.fingerprint)
    assert not accepted(attacker, path)
    assert accepted(genuine, path)


def accepted(signer: Owner, keyring: Path) -> bool:
    """Whether apt takes the lists of a repository that somebody signed, by this keyring."""
    home = keyring.parent / f"apt-{len(list(keyring.parent.iterdir()))}"
    for folder in ("repository", "lists/partial", "cache/archives/partial"):
        (home / folder).mkdir(parents=True)
    release = home / "Release"
    release.write_text(f"Origin: x\nDate: {time.strftime('%a, %d %b %Y %H:%M:%S +0000', time.gmtime())}\nSHA256:\n")  # fmt: skip
    signer.gpg("--output", str(home / "repository/InRelease"), "--clearsign", str(release))
    (home / "list").write_text(f"deb [signed-by={keyring}] file:{home}/repository ./\n")
    settings = {
        "Dir::Etc::sourcelist": home / "list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": home / "lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": home / "cache",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
    }
    words = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    done = process.run(("apt-get", "update", *words), check=False)
    return "not signed" not in done.stderr and "NO_PUBKEY" not in done.stdout + done.stderr


def multiprecision(number: int) -> bytes:
    return number.bit_length().to_bytes(2, "big") + number.to_bytes(
        number.bit_length() + 7 >> 3, "big"
    )


def of_numbers(algorithm: int, *numbers: int) -> bytes:
    """A key's body."""
    return b"\4\0\0\0\1" + bytes([algorithm]) + b"".join(map(multiprecision, numbers))


HUGE = (1 << 16383) + 1
COSTLY: dict[str, tuple[int, tuple[int, ...], tuple[int, ...]]] = {
    "modulus": (1, (HUGE, 65537), (5,)),
    "exponent": (1, ((1 << 2047) + 1, (1 << 2046) + 1), (5,)),
    "p": (17, (HUGE, (1 << 255) + 1, 2, 3), (5, 5)),
    "q": (17, ((1 << 2047) + 1, (1 << 2046) + 1, 2, 3), (5, 5)),
}


@pytest.mark.parametrize("what", COSTLY)
def test_numbers_that_would_cost_seconds_are_no_keys(
    plugin: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    module = plugin("module_utils.openpgp_signature")

    def power(*_: int) -> int:
        raise AssertionError("a power was computed")

    monkeypatch.setattr(module, "pow", power, raising=False)
    algorithm, public, made = COSTLY[what]
    key = module.PrimaryKey(of_numbers(algorithm, *public))
    head = b"\4\x13" + bytes([algorithm]) + b"\x08\0\0\0\0"
    values = b"".join(map(multiprecision, made))
    unsigned = module.Signature.read(head + b"\0\0" + values)
    start = unsigned.digest(module.framed(key.body) + b"x")[:2]
    signature = module.Signature.read(head + start + values)
    assert signature.digest(module.framed(key.body) + b"x")[:2] == signature.start
    assert not key.signed(signature, b"x", needed=False)


def test_of_another_key_no_signature_is_verified(
    plugin: Callable[[str], ModuleType],
    owner: Callable[..., Owner],
    fetch: Fetch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = plugin("module_utils.openpgp_signature")
    verified: list[object] = []
    monkeypatch.setattr(module.PrimaryKey, "signed", lambda *a, **_: verified.append(a))
    one = owner()
    assert one.fingerprint in fetch(one.exported(), OTHER)["msg"]
    assert verified == []
    fetch(one.exported(), one.fingerprint)
    assert verified != []


EMBEDDED_TEXTS: dict[str, tuple[int, bytes, bool]] = {
    "a subkey's own": (0x18, b"\4\x19\x16\x08\0\0\0\0\1\2values", True),
    "of a user id": (0x13, b"\4\x19\x16\x08\0\0\0\0\1\2values", False),
    "of a revocation": (0x28, b"\4\x19\x16\x08\0\0\0\0\1\2values", False),
    "of another type": (0x18, b"\4\x18\x16\x08\0\0\0\0\1\2values", False),
    "of version 3": (0x18, b"\3\5\x19" + bytes(20), False),
    "no signature": (0x18, b"anything that was put here", False),
    "too large": (0x18, b"\4\x19\x16\x08\0\0\0\0\1\2" + bytes(5000), False),
}


@pytest.mark.parametrize("what", EMBEDDED_TEXTS)
def test_an_embedded_signature_is_kept_where_it_is_a_subkeys_own(
    plugin: Callable[[str], ModuleType], what: str
) -> None:
    module = plugin("module_utils.openpgp_signature")
    kind, text, kept = EMBEDDED_TEXTS[what]
    unhashed = module._subpacket(32, text)
    body = bytes([4, kind, 1, 8]) + b"\0\0" + len(unhashed).to_bytes(2, "big") + unhashed
    plain = module.Signature.read(body + b"\1\2values of its own").plain()
    assert (text in plain) is kept
    assert module.Signature.read(plain) is not None


def test_what_is_beside_an_embedded_signature_is_not_kept(
    plugin: Callable[[str], ModuleType],
) -> None:
    module = plugin("module_utils.openpgp_signature")
    junk = module._subpacket(20, b"planted")
    back = b"\4\x19\x16\x08\0\0" + len(junk).to_bytes(2, "big") + junk + b"\1\2values"
    unhashed = module._subpacket(32, back)
    body = b"\4\x18\1\x08\0\0" + len(unhashed).to_bytes(2, "big") + unhashed + b"\1\2values"
    plain = module.Signature.read(body).plain()
    assert b"\4\x19\x16\x08" in plain
    assert b"planted" not in plain
