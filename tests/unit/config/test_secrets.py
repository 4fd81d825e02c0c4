"""Secrets are fetched from where they are kept, and no spelling of them gets out."""

import base64
import html
import json
import os
import re
import shlex
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus, urlencode

import pytest
from ansible.parsing.vault import VaultLib, VaultSecret
from hypothesis import given
from hypothesis import strategies as st

from appliance.adapters.process import run
from appliance.config.finding import InvalidConfig
from appliance.config.load import load_site
from appliance.config.secrets import Redactor, Secret, resolve
from appliance.hidden import forget, hidden, hide
from appliance.models.handover import Difference
from appliance.models.result import CheckResult, Status
from appliance.models.site import Site
from appliance.text import one_line, quoted, shortened

PASSWORD = 'pä/ss+w"rd & <more>'
LONG = base64.b64encode(os.urandom(128)).decode()
PEM = "-----BEGIN X-----\n" + "\n".join(["QUJDREVGR0hJSktM" * 4] * 3) + "\n-----END X-----"


def with_secret(site: Site, ref: dict[str, str]) -> Site:
    return Site.model_validate({**site.model_dump(exclude_none=True), "secrets": {"token": ref}})


@pytest.fixture
def site(site_folder: Path) -> Site:
    return load_site(site_folder).site


def test_secret_of_a_file_loses_its_last_line_feed_only(site: Site, site_folder: Path) -> None:
    (site_folder / "secrets/token").write_text(" two\nlines \n")
    found = resolve(with_secret(site, {"file": "secrets/token"}), site_folder)
    assert found["token"] == " two\nlines "


def test_bmc_passwords_are_resolved_by_host(site: Site, site_folder: Path) -> None:
    assert resolve(site, site_folder)["bmc.gpu-1"] == "bmc of this test"


def test_secret_of_the_environment(
    site: Site, site_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_TOKEN", PASSWORD)
    assert resolve(with_secret(site, {"env": "ACME_TOKEN"}), site_folder)["token"] == PASSWORD


@pytest.fixture
def vault(site_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An encrypted file with one usable key, and its password's file."""
    key = site_folder / "vault-password"
    key.write_text("open sesame\n")
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(key))
    plain = json.dumps({"token": PASSWORD, "number": 7})
    library = VaultLib([("default", VaultSecret(b"open sesame"))])
    (site_folder / "vault.yml").write_bytes(library.encrypt(plain))
    return site_folder / "vault.yml"


def test_secret_of_a_vault(site: Site, site_folder: Path, vault: Path) -> None:
    assert (
        resolve(with_secret(site, {"vault": "vault.yml#token"}), site_folder)["token"] == PASSWORD
    )


def test_a_vault_opens_for_a_user_without_a_home(
    vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/dev/null is a place where even root can make no folder."""
    monkeypatch.delenv("ANSIBLE_LOCAL_TEMP")
    monkeypatch.setenv("HOME", "/dev/null")
    code = "import sys; from pathlib import Path; from appliance.config.vault import Vault; Vault(Path(sys.argv[1])).read('vault.yml#x')"
    done = run((sys.executable, "-c", code, str(vault.parent)), check=False)
    assert 'vault.yml has no key "x"' in done.stderr


@pytest.mark.parametrize(
    ("ref", "says", "remedy"),
    [
        ({"file": "secrets/none"}, "No such file", "check its path"),
        ({"file": "secrets/blank"}, "is empty", "at least one character"),
        ({"file": "secrets/binary"}, "is not text", "base64"),
        ({"env": "ACME_NOT_SET"}, "ACME_NOT_SET is not set", "export"),
        ({"vault": "vault.yml#toke"}, 'no key "toke"', "token, number"),
        ({"vault": "vault.yml#number"}, "is not text", "quotes"),
        ({"vault": "secrets/munge_key#x"}, "cannot be decrypted", "ansible-vault view"),
        ({"vault": "gone.yml#x"}, "No such file", "path"),
    ],
)
def test_secret_that_cannot_be_had_says_which_and_why(
    ref: dict[str, str], says: str, remedy: str, site: Site, site_folder: Path, vault: Path
) -> None:
    (site_folder / "secrets/blank").write_text("\n")
    (site_folder / "secrets/binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidConfig) as refused:
        resolve(with_secret(site, ref), site_folder)
    (finding,) = (f for f in refused.value.findings if f.key == "secrets.token")
    assert says in finding.message
    assert remedy in finding.remedy
    assert PASSWORD not in str(refused.value)


def test_wrong_vault_password_is_told_without_the_password(
    site: Site, site_folder: Path, vault: Path
) -> None:
    (site_folder / "vault-password").write_text("wrong horse")
    with pytest.raises(InvalidConfig) as refused:
        resolve(with_secret(site, {"vault": "vault.yml#token"}), site_folder)
    assert "cannot be decrypted" in str(refused.value)
    assert "wrong horse" not in "".join(traceback.format_exception(refused.value))


def test_a_password_in_the_home_of_nobody_is_one_line(
    site: Site, site_folder: Path, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", "~no-such-user/password")
    with pytest.raises(InvalidConfig, match="is in the home of an unknown user"):
        resolve(with_secret(site, {"vault": f"{vault.name}#token"}), site_folder)


def test_all_missing_secrets_are_told_at_once(site: Site, site_folder: Path) -> None:
    (site_folder / "secrets/munge_key").unlink()
    (site_folder / "secrets/bmc").unlink()
    with pytest.raises(InvalidConfig) as refused:
        resolve(site, site_folder)
    assert {f.key for f in refused.value.findings} == {"bmc.gpu-1", "secrets.munge_key"}


def test_secret_hides_from_repr_and_f_strings() -> None:
    secret = Secret(PASSWORD)
    assert PASSWORD not in repr({"a": [secret]})
    assert PASSWORD not in f"{secret} {secret!r} {secret:>40}"
    assert str(secret) == PASSWORD


HOOK = "https://hooks.example/x?a=1&token=Zm9v<b>/bar'q\"z"

SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda s: s,
    "json": json.dumps,
    "json, not ascii": lambda s: json.dumps(s, ensure_ascii=False),
    "json in json": lambda s: json.dumps(json.dumps(s))[3:-3],
    "repr": repr,
    "repr of bytes": lambda s: repr(s.encode()),
    "url": lambda s: quote(s),
    "url, all": lambda s: quote(s, safe=""),
    "url, plus": quote_plus,
    "url, lower hex": lambda s: re.sub("%..", lambda f: f[0].lower(), quote(s, safe="")),
    "query": lambda s: urlencode({"p": s}),
    "html": html.escape,
    "html, quotes by number": lambda s: (
        html.escape(s).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    ),
    "json of Go": lambda s: json.dumps(s).translate({ord(c): f"\\u{ord(c):04x}" for c in "<>&"}),
    "json of PHP": lambda s: json.dumps(s).replace("/", "\\/"),
    "shell, as -x prints it": lambda s: s.replace("'", "'\\''"),
    "shell": shlex.quote,
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64 for urls": lambda s: base64.urlsafe_b64encode(s.encode()).decode(),
    "base64 behind a user": lambda s: base64.b64encode(b"admin:" + s.encode()).decode(),
    "base64 behind two": lambda s: base64.b64encode(b"ab" + s.encode() + b"z").decode(),
    "hex": lambda s: s.encode().hex(),
    "last line": lambda s: s.splitlines()[-1],
    "one line": lambda s: s.splitlines()[len(s.splitlines()) // 2],
    "lines indented": lambda s: "\n".join("    " + line for line in s.splitlines()),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(
    "secret", [PASSWORD, LONG, PEM, HOOK], ids=["password", "long", "pem", "hook"]
)
def test_no_spelling_of_a_secret_is_left(secret: str, spelling: str) -> None:
    spelled = SPELLINGS[spelling](secret)
    cleaned = Redactor([Secret(secret)])(f"before {spelled} after")
    assert "***" in cleaned
    assert cleaned.startswith("before ")
    assert cleaned.endswith(" after")
    rest = cleaned.removeprefix("before ").removesuffix(" after")
    pieces = {spelled[i : i + 9] for i in range(max(1, len(spelled) - 8))}
    assert not [piece for piece in pieces if piece in rest]


@pytest.mark.parametrize("width", [64, 76])
def test_base64_in_lines_is_hidden(width: int) -> None:
    whole = base64.b64encode(PEM.encode()).decode()
    lines = [whole[at : at + width] for at in range(0, len(whole), width)]
    cleaned = Redactor([PEM])("\n".join(lines))
    assert not [line for line in lines if line in cleaned and len(line) >= 16]


@given(secret=st.text(min_size=4, max_size=40), other=st.text(max_size=40))
def test_what_is_redacted_does_not_hold_the_secret(secret: str, other: str) -> None:
    redact = Redactor([secret])
    if secret not in "***":
        assert secret not in redact(other + secret + other).replace("***", "\0")


def test_other_text_is_left_alone() -> None:
    text = "gpu-3 storage.mount /data is not mounted"
    assert Redactor([PASSWORD, LONG, PEM, ""])(text) == text
    assert Redactor([])(text) == text


def test_longer_secret_goes_first() -> None:
    assert Redactor(["abcd", "abcdefgh"])("abcdefgh") == "***"


SHARED = "\n".join("Q" * 60 + f"{n:04}" for n in range(20))
HOSTILE = ("Q", "Q" * 60, "Q" * 60 + "0001", "\\", "&amp;", "%41", "41", "UVFR")


@pytest.mark.parametrize("words", HOSTILE)
def test_a_text_that_was_written_to_be_slow_is_searched_about_as_fast_as_another(
    words: str,
) -> None:
    redact = Redactor((SHARED, LONG, PASSWORD))

    def cost(text: str) -> float:
        def once() -> float:
            began = time.process_time()
            redact(text)
            return time.process_time() - began

        return min(once() for _ in range(5))

    usual = cost("gpu-1 says that all is well, as it was. " * 10_000)
    assert cost((words * 400_000)[:400_000]) < 20 * usual


def test_secrets_that_overlap_are_hidden_whole() -> None:
    redact = Redactor(("abcdXYZ", "XYZefgh"))
    assert redact("1 abcdXYZefgh 2 abcdXYZ 3") == "1 *** 2 *** 3"
    assert Redactor(("aaaa",))("aaaaaaa b aaaa") == "*** b ***"


def test_every_text_of_a_document_is_cleaned_and_no_word_of_ours_is_changed() -> None:
    redact = Redactor((PASSWORD, "warn"))
    result = CheckResult(
        id="a.b", target="gpu-1", status=Status.WARN, cause=f"x {PASSWORD}", names=(PASSWORD,)
    )
    difference = Difference(host="gpu-1", what="key", then=PASSWORD)
    safe = redact.texts({PASSWORD: (result, [difference])})
    assert PASSWORD not in repr(safe)
    ((kept, (told,)),) = safe.values()
    assert (kept.status, kept.cause, told.then) == (Status.WARN, "x ***", "***")
    clean = (difference.model_copy(update={"then": ""}),)
    assert redact.texts(clean) is clean


SPACED = "correct  horse\tbattery \x07staple"


@pytest.mark.parametrize("secret", [SPACED, f"first line\n{SPACED}\nlast line"])
def test_a_secret_written_on_one_line_is_hidden(secret: str) -> None:
    told = Redactor([secret])(one_line(f"refused: {secret}\n"))
    assert not {"horse", "battery", "staple"} & set(told.replace(":", " ").split())


@pytest.mark.parametrize("longest", range(32, 64))
def test_what_a_shortened_text_holds_of_a_secret_is_hidden(longest: int) -> None:
    told = shortened(f"the password is not right: {LONG} as {LONG}", longest)
    kept = Redactor([LONG])(f"gpu-1: {told}; check what listens")
    assert LONG[:4] not in kept
    assert kept.startswith("gpu-1: the password is not right: ")
    assert kept.endswith("; check what listens")


def test_a_shortened_spelling_is_hidden_too() -> None:
    encoded = base64.b64encode(PASSWORD.encode()).decode()
    assert encoded[:6] not in Redactor([PASSWORD])(quoted(f"data: {encoded}{encoded}", 24))


def test_a_mark_behind_other_words_hides_none() -> None:
    told = "a long list: gpu-1, gpu-2, gpu-3…"
    assert Redactor(["gpu-3 is the password"])(told) == "a long list: gpu-1, gpu-2, ***…"
    assert Redactor([PASSWORD, LONG])(told) == told


def test_what_was_read_of_secrets_is_hidden_until_another_command_line_begins() -> None:
    forget()
    assert hidden(PASSWORD) == PASSWORD
    for one in (PASSWORD, LONG):
        hide([one], lambda known: Redactor(known).texts)
    assert hidden(f"{PASSWORD} {LONG}") == "*** ***"
    assert (
        hidden((CheckResult(id="a", target="b", status=Status.FAIL, cause=LONG),))[0].cause == "***"
    )
    forget()
    assert hidden(PASSWORD) == PASSWORD


def test_secrets_of_a_site_are_hidden_once_they_are_resolved(site: Site, site_folder: Path) -> None:
    forget()
    resolve(site, site_folder)
    assert hidden("the controller says: bmc of this test") == "the controller says: ***"
    forget()
