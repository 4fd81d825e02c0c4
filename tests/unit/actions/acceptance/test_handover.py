"""The hand-over holds what was accepted; no octet of it changes unseen, and it is of one state of one site."""

import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import RawIOBase
from pathlib import Path

import pytest

from appliance.actions.acceptance import accept as accepting
from appliance.actions.acceptance import handover
from appliance.actions.acceptance import verify as verifying
from appliance.actions.acceptance.handover import (
    BASELINE,
    MANIFEST,
    SIGNATURE,
    UNSIGNED,
    Written,
    hand_over,
)
from appliance.actions.acceptance.verify import verify
from appliance.actions.sites.opening import Target, open_session
from appliance.adapters import archive, process, signing
from appliance.checks.check import passed
from appliance.engine.accept.evidence import keep_evidence
from appliance.engine.look.fact_history import store_facts
from appliance.engine.look.gather import Round, Unanswered
from appliance.engine.look.posture import HANDOVER
from appliance.engine.look.run_record import Findings, record_of
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.journal import Journal
from appliance.models.acceptance import Acceptance, Accepted
from appliance.models.evidence import Evidence, EvidenceFile, Source
from appliance.models.facts import HostFacts
from appliance.models.handover import Baseline
from appliance.models.result import Verdict
from appliance.report.difference_lines import lines
from tests.support.command_line import run
from tests.support.facts import facts_of, gpus_of
from tests.support.site_files import ready_site

NOW = datetime.now(UTC)
HOSTS = ("head", "gpu-1", "gpu-2")


class Nobody:
    def handle(self, event: object) -> None: ...


@pytest.fixture(autouse=True)
def no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "BROWSERS", ())


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Two GPU hosts that have told what they are."""
    made = ready_site(tmp_path / "mysite", 2)
    _tell(made)
    return made


def _facts(host: str, first: int = 0) -> HostFacts:
    gpus = {} if host == "head" else {"gpus": gpus_of("NVIDIA A100-SXM4-80GB", 8, first=first)}
    return facts_of(host, **gpus)


def _tell(site: Path, **instead: HostFacts) -> None:
    facts = {host: _facts(host) for host in HOSTS} | instead
    with open_session(Target(site), "health", Nobody()) as session:
        store_facts(session, Round(facts, {}))


def key_in(folder: Path, kind: str = "ed25519", name: str = "key") -> Path:
    process.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(folder / name)])
    return folder / name


def signers(key: Path, name: str = "acme") -> Path:
    file = key.with_name("allowed_signers")
    kind, public, *_ = key.with_name(f"{key.name}.pub").read_text().split()
    file.write_text(f"{name} {kind} {public}\n")
    return file


def handed(site: Path, key: Path | None = None, output: Path | None = None) -> Written:
    """The hand-over of the site, as if it had been accepted."""
    with open_session(Target(site), "accept", Nobody(), keeps=True) as session:
        return _hand_over(session, key, output)


def _hand_over(session: Session, key: Path | None, output: Path | None) -> Written:
    found = Round({host: _facts(host) for host in HOSTS}, {})
    results = [passed(host, 8).of("gpu.count") for host in HOSTS[1:]]
    record = record_of(session, found, Findings(results=results)).model_copy(
        update={"acceptance": Acceptance(verdict=Accepted.YES), "verdict": Verdict.PASSED}
    )
    return hand_over(session, record, output, signing.key_of(key) if key else None)


def _said(archive_: Path, allowed: Path | None, site: Path | None = None) -> tuple[int, str]:
    found = verify(archive_, allowed, Target(site) if site else None, Nobody())
    return found.exit_code, "; ".join((*found.problems, *lines(found.differences), *found.doubts))


def test_signed_hand_over_is_verified_by_us_and_by_tools_that_are_not_ours(
    site: Path, tmp_path: Path
) -> None:
    key = key_in(tmp_path)
    written = handed(site, key)
    assert _said(written.archive, signers(key), site) == (0, "")
    process.run(["tar", "-xf", str(written.archive), "-C", str(tmp_path)])
    folder = tmp_path / written.folder.name
    for words in (
        ["sha256sum", "--check", "--strict", "--quiet", MANIFEST],
        [
            *("ssh-keygen", "-Y", "verify", "-f", str(signers(key)), "-I", "acme"),
            *("-n", "appliance-handover", "-s", SIGNATURE),
        ],
    ):
        with (folder / MANIFEST).open("rb") as manifest:
            process.run(words, cwd=folder, input=manifest.read())
    readme = (folder / "README.txt").read_text()
    assert "ssh-keygen -Y verify" in readme
    assert "over a different channel" in readme
    listed = {line.split()[0] for line in readme.splitlines() if line.startswith("  ")}
    tops = {path.name for path in folder.iterdir()} - {"README.txt", SIGNATURE}
    assert tops <= listed
    assert "handover.pdf" not in listed
    assert signing.key_of(key).fingerprint in (folder / "handover.html").read_text()


def test_unsigned_hand_over_says_so_loudly_and_passes_nowhere(site: Path, tmp_path: Path) -> None:
    written = handed(site)
    assert _said(written.archive, None) == (3, UNSIGNED)
    assert _said(written.archive, signers(key_in(tmp_path))) == (1, UNSIGNED)
    assert "UNSIGNED" in (written.folder / "handover.html").read_text()
    assert "UNSIGNED" in (written.folder / "README.txt").read_text()


def test_signature_of_somebody_else_or_for_something_else_counts_for_nothing(
    site: Path, tmp_path: Path
) -> None:
    key = key_in(tmp_path)
    written = handed(site, key)
    other = key_in(tmp_path, name="other")
    assert _said(written.archive, signers(other))[0] == 1
    assert _said(written.archive, None)[0] == 3
    (written.folder / SIGNATURE).unlink()
    process.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", "git", MANIFEST],
        cwd=written.folder,
    )
    archive.pack(written.folder, tmp_path / "git.tar")
    assert "the signer is not in" in _said(tmp_path / "git.tar", signers(key))[1]


def test_no_octet_of_the_archive_changes_unseen(site: Path, tmp_path: Path) -> None:
    key = key_in(tmp_path)
    written = handed(site, key)
    allowed = signers(key)
    whole = written.archive.read_bytes()
    changed = tmp_path / "changed.tar"
    at_signature = whole.index(b"-----BEGIN SSH")
    places = {*range(0, len(whole), len(whole) // 80), *range(at_signature, at_signature + 300, 37)}
    for at in sorted(places):
        octets = bytearray(whole)
        octets[at] ^= 0x80 if at % 2 else 1
        changed.write_bytes(octets)
        try:
            code, _ = _said(changed, allowed)
        except ApplianceError:
            continue
        assert code == 1, f"octet {at}"
    for cut in (whole[:-1], whole + b"\0", whole + whole, whole[:-1024]):
        changed.write_bytes(cut)
        try:
            assert _said(changed, allowed)[0] == 1
        except ConfigError:
            continue


def test_octets_that_belong_to_no_file_are_seen(site: Path, tmp_path: Path) -> None:
    """Behind the end, in the padding of a file, and in a header whose own checksum is right again."""
    written = handed(site)
    whole = written.archive.read_bytes()
    with tarfile.open(written.archive) as tar:
        member = next(m for m in tar if m.size % 512)
        header = member.tobuf(tarfile.PAX_FORMAT)
        member.mode = 0o600
        other = member.tobuf(tarfile.PAX_FORMAT)
    padding = member.offset_data + member.size
    at = whole.index(header, member.offset)
    for changed in (
        whole + bytes(10240),
        whole[:padding] + b"x" + whole[padding + 1 :],
        whole[:at] + other + whole[at + len(other) :],
    ):
        (tmp_path / "changed.tar").write_bytes(changed)
        code, told = _said(tmp_path / "changed.tar", None)
        assert (code, told.split("; ")[0]) == (
            1,
            "the archive itself was changed, but not its files",
        )


def test_an_archive_whose_folder_was_renamed_is_not_as_it_was_handed_over(
    site: Path, tmp_path: Path
) -> None:
    """Headers of a tar archive stand in no manifest, and all of them can be written anew."""
    key = key_in(tmp_path)
    written = handed(site, key)
    renamed = written.folder.rename(written.folder.with_name("handover-of-another-site"))
    archive.pack(renamed, tmp_path / "again.tar")
    code, told = _said(tmp_path / "again.tar", signers(key), site)
    assert code == 1
    assert (
        "its folder was renamed to handover-of-another-site; it was handed over as handover-"
        in told
    )


def test_what_is_read_of_an_archive_is_what_was_judged(site: Path, tmp_path: Path) -> None:
    written = handed(site)
    found = archive.contents(written.archive)
    at = found.members["handover.json"].offset
    octets = bytearray(written.archive.read_bytes())
    octets[at : at + 1] = b" "
    written.archive.write_bytes(octets)
    with pytest.raises(ConfigError, match=r"handover\.json changed while it was read"):
        found.read("handover.json", 1 << 20)


@pytest.mark.parametrize("name", ["baseline.json", "handover.json"])
def test_a_hand_over_without_its_record_is_none(site: Path, tmp_path: Path, name: str) -> None:
    code, told = _said(_packed(handed(site), tmp_path, lambda f: (f / name).unlink()), None, site)
    assert code == 1
    assert f"{name} is missing" in told
    assert "cannot be read" in told


def _packed(written: Written, tmp_path: Path, change: Callable[[Path], object]) -> Path:
    folder = tmp_path / "again" / written.folder.name
    shutil.copytree(written.folder, folder)
    change(folder)
    archive.pack(folder, tmp_path / "again.tar")
    return tmp_path / "again.tar"


def _swap(folder: Path) -> None:
    page, record = folder / "handover.html", folder / "handover.json"
    kept = page.read_bytes()
    page.write_bytes(record.read_bytes())
    record.write_bytes(kept)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: (f / "handover.html").write_text("all good"), "handover.html was changed"),
        (lambda f: (f / "facts/gpu-1.json").unlink(), "facts/gpu-1.json is missing"),
        (lambda f: (f / "evidence.txt").write_text("x"), "evidence.txt was added"),
        (lambda f: (f / MANIFEST).unlink(), "MANIFEST.sha256 is missing"),
        (
            lambda f: (f / MANIFEST).write_text("x\n"),
            "some lines are not in the format of a manifest",
        ),
        (_swap, "handover.html was changed; handover.json was changed"),
        (
            lambda f: (f / SIGNATURE).write_text((f / SIGNATURE).read_text() + "\n"),
            "MANIFEST.sha256.sig was changed",
        ),
        (lambda f: (f / "handover.json").write_text("{}"), "cannot be read"),
    ],
)
def test_each_file_that_was_changed_taken_or_added_is_named(
    site: Path, tmp_path: Path, change: Callable[[Path], None], said: str
) -> None:
    key = key_in(tmp_path)
    code, told = _said(_packed(handed(site, key), tmp_path, change), signers(key))
    assert code == 1
    assert said in told


def test_archive_with_links_or_names_that_lead_elsewhere_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "a").write_text("a")
    (folder / "link").symlink_to("/etc/passwd")
    for words in (
        ["made"],
        ["-P", f"{tmp_path}/made/a"],
        ["-P", "made/../made/a"],
        ["made/a", "made/a"],
    ):
        words = [
            "tar",
            "-cf",
            str(tmp_path / "x.tar"),
            "-C",
            str(tmp_path),
            "--hard-dereference",
            *words,
        ]
        process.run(words)
        with pytest.raises(ConfigError, match="is not a hand-over"):
            archive.contents(tmp_path / "x.tar")
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ConfigError, match="it is not a regular file"):
            archive.contents(other)
    for octets in (b"", b"no archive", b"\0" * 10240):
        (tmp_path / "x.tar").write_bytes(octets)
        with pytest.raises(ConfigError, match="is not a hand-over"):
            archive.contents(tmp_path / "x.tar")
    with pytest.raises(ConfigError, match="cannot be read"):
        archive.contents(tmp_path / "nothing.tar")


@pytest.mark.parametrize("name", [MANIFEST, "handover.json"])
def test_a_file_that_claims_to_be_huge_is_refused_before_it_is_read(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "TOLD", verifying.LISTED)
    size = verifying.LISTED + 1
    forged = _sparse(tmp_path / "forged.tar", tarfile.TarInfo(f"x/{name}"), size)
    with pytest.raises(ConfigError, match=f"{name} has {size:,} bytes"):
        verify(forged, None, None, Nobody())


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_claims_to_be_huge_is_refused_before_it_is_read(
    tmp_path: Path, kind: bytes
) -> None:
    info = tarfile.TarInfo("x")
    info.type = kind
    with pytest.raises(ConfigError, match="a header of 4,294,967,296 bytes"):
        archive.contents(_sparse(tmp_path / "forged.tar", info, 1 << 32))


def _sparse(file: Path, info: tarfile.TarInfo, size: int) -> Path:
    """An archive of one file of zeros, which takes no room."""
    info.size = size
    with file.open("wb") as sink:
        sink.write(info.tobuf(tarfile.GNU_FORMAT))
        sink.truncate(512 + -(-size // 512) * 512 + 1024)
    return file


def _with(written: Written, archive_: Path, *names: str) -> Path:
    """The archive with files more, which no manifest lists."""
    shutil.copy(written.archive, archive_)
    with tarfile.open(archive_, "a", format=tarfile.PAX_FORMAT) as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(f"{written.folder.name}/{name}"))
    return archive_


@pytest.mark.parametrize(
    "name", ["x\n    signed by acme", "x\x1b[2J", "x\r", "x\x9b2J", "x\u202egpj.txt", "x\udcff"]
)
def test_no_name_in_an_archive_writes_on_the_readers_terminal(
    site: Path, tmp_path: Path, name: str
) -> None:
    forged = _with(handed(site), tmp_path / "forged.tar", name)
    with pytest.raises(ConfigError, match="a name in it is not text") as caught:
        archive.contents(forged)
    assert caught.value.message.isprintable()
    digest = "0" * 64
    listed = _packed(
        handed(site), tmp_path, lambda f: (f / MANIFEST).write_text(f"{digest}  x\x1b[2J\n")
    )
    said = _said(listed, None)[1]
    assert said.isprintable()
    assert "some lines are not in the format of a manifest" in said


def test_of_many_added_files_some_are_named_and_all_are_counted(site: Path, tmp_path: Path) -> None:
    names = [f"f{number:04}" for number in range(1000)]
    said = _said(_with(handed(site), tmp_path / "many.tar", *names), None)[1].split("; ")
    assert "f0019 was added" in said
    assert "f0020 was added" not in said
    assert "and 980 more files: each was added" in said


def test_hand_over_of_another_state_of_the_site_does_not_pass_as_todays(
    site: Path, tmp_path: Path
) -> None:
    key = key_in(tmp_path)
    written = handed(site, key)
    allowed = signers(key)
    _tell(site, **{"gpu-2": _facts("gpu-2", first=1)})
    code, told = _said(written.archive, allowed, site)
    assert code == 1
    assert told == "~ gpu-2: GPU 0 uuid: GPU-100 then, GPU-101 now"
    _tell(site)
    assert _said(written.archive, allowed, site) == (0, "")
    text = (site / "site.yml").read_text()
    (site / "site.yml").write_text(text + "# a comment\n")
    assert _said(written.archive, allowed, site) == (0, "")
    limit = "limits: {base.clock: {value: 5, unit: s, source: mine}}\n"
    (site / "site.yml").write_text(text + limit)
    assert _said(written.archive, allowed, site) == (1, "~ site limits has changed")
    (site / "site.yml").write_text(text.replace("name: mysite", "name: other"))
    assert "site: mysite with profile" in _said(written.archive, allowed, site)[1]


def test_what_nobody_knows_of_a_host_is_a_difference(site: Path, tmp_path: Path) -> None:
    written = handed(site)
    for file in (site / "runs").glob("journal*"):
        file.unlink()
    code, told = _said(written.archive, None, site)
    assert code == 1
    assert "? head, gpu-[1-2]: its current state is unknown" in told


def test_a_host_that_was_silent_when_it_was_asked_last_is_not_as_it_was(
    site: Path, tmp_path: Path
) -> None:
    key = key_in(tmp_path)
    written = handed(site, key)
    silent = {"gpu-2": Unanswered("gpu-2", "10.0.0.12 refuses port 22", "is sshd up?")}
    with open_session(Target(site), "health", Nobody()) as session:
        store_facts(session, Round({"head": _facts("head"), "gpu-1": _facts("gpu-1")}, silent))
    code, told = _said(written.archive, signers(key), site)
    assert code == 1
    assert told == ("? gpu-2: the host did not answer the last run: 10.0.0.12 refuses port 22")
    _tell(site)
    assert _said(written.archive, signers(key), site) == (0, "")


@pytest.mark.parametrize(("days", "code"), [(0.9, 0), (1.1, 3)])
def test_answers_of_yesterday_say_nothing_of_today(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: float, code: int
) -> None:
    key = key_in(tmp_path)
    written = handed(site, key)
    then = datetime.now(UTC) - timedelta(days=days)
    seen = {"head": datetime.now(UTC), "gpu-1": then, "gpu-2": None}
    monkeypatch.setattr(verifying, "answered_last", lambda session: seen)
    found = verify(written.archive, signers(key), Target(site), Nobody())
    assert (found.exit_code, found.answered) == (code, then)
    doubt = f"the last answer of a host is from {then:%Y-%m-%d}; refresh it: appliance health"
    assert found.doubts == ((doubt,) if code else ())


def test_baseline_is_kept_in_the_sites_record_as_in_the_archive(site: Path) -> None:
    written = handed(site)
    with Journal(site / "runs") as kept:
        entry = kept.last(HANDOVER)
    assert entry
    baseline = Baseline.model_validate(entry.data["baseline"])
    assert baseline == Baseline.model_validate_json((written.folder / BASELINE).read_text())
    assert [host.name for host in baseline.hosts] == list(HOSTS)
    assert baseline.hosts[1].gpus[0].uuid == "GPU-100"
    assert "secrets" not in baseline.declared


def test_no_secret_of_the_site_is_handed_over(site: Path) -> None:
    written = handed(site)
    secrets = [f.read_bytes().strip() for f in (site / "secrets").iterdir() if f.stat().st_size > 8]
    assert secrets
    whole = written.archive.read_bytes()
    assert not any(secret in whole for secret in secrets)


@pytest.mark.parametrize("output", ["file", "file/below"])
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_done(
    tmp_path: Path, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "open_session", None)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written"):
        accepting.accept(Target(), Nobody(), output=tmp_path / output)


def test_a_place_that_is_not_there_yet_is_taken(tmp_path: Path) -> None:
    handover.require_place(tmp_path / "new/folder")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_key_of_another_kind_is_refused_before_anything_is_done(tmp_path: Path, kind: str) -> None:
    with pytest.raises(ConfigError, match=f"is a key of type {kind.upper()}"):
        signing.key_of(key_in(tmp_path, kind))
    (tmp_path / "text").write_text("no key")
    with pytest.raises(ConfigError, match="is not an SSH key"):
        signing.key_of(tmp_path / "text")
    with pytest.raises(ConfigError, match="no such key file"):
        signing.key_of(tmp_path / "absent")


def _enter_logs(site: Path, tmp_path: Path) -> list[EvidenceFile]:
    """One that stays, one that changes and one that goes."""
    files = []
    for name in ("kept.log", "changed.log", "gone.log"):
        (tmp_path / name).write_text(name)
        digest = hashlib.sha256(name.encode()).hexdigest()
        path = str(tmp_path / name)
        files.append(EvidenceFile(path=path, sha256=digest, size=8, began=NOW, dated_by="x"))
    (tmp_path / "changed.log").write_text("other")
    (tmp_path / "gone.log").unlink()
    evidence = Evidence(
        benchmark="copy",
        source=Source.LOGS,
        origin="logs",
        files=tuple(files),
        began=NOW,
        dated_by="x",
        site="mysite",
        profile="hpc",
        gpus_per_host=8,
        size=2,
        results=(passed("gpu-1", 25).of("copy.h2d"),),
    )
    with open_session(Target(site), "validate", Nobody(), keeps=True) as session:
        keep_evidence(session, evidence)
    return files


def test_evidence_that_became_a_pipe_is_not_waited_for(site: Path, tmp_path: Path) -> None:
    """Logs may lie in the home of whoever trained."""
    files = _enter_logs(site, tmp_path)
    for file in files:
        Path(file.path).unlink(missing_ok=True)
        os.mkfifo(file.path)
    left = handed(site).handover.not_enclosed
    assert len(left) == len(files)
    assert all("it is not a regular file" in why for why in left)


def test_evidence_is_enclosed_unless_it_changed_or_is_gone(site: Path, tmp_path: Path) -> None:
    files = _enter_logs(site, tmp_path)
    written = handed(site)
    (told,) = json.loads((written.folder / "evidence.json").read_text())
    (place,) = told["enclosed"].values()
    assert (written.folder / place).read_text() == "kept.log"
    changed, gone = written.handover.not_enclosed
    assert "changed.log" in changed
    assert "changed since it was recorded" in changed
    assert "no longer readable" in gone
    assert f"{files[1].sha256[:16]}" in changed


def test_a_file_that_changes_while_it_is_copied_is_not_enclosed(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _enter_logs(site, tmp_path)
    monkeypatch.setattr(handover, "_unfit", lambda file: "")
    written = handed(site)
    assert [path.name for path in (written.folder / "evidence").rglob("*.log")] == ["kept.log"]
    changed, gone = written.handover.not_enclosed
    assert ("changed.log" in changed, "gone.log" in gone) == (True, True)
    assert changed.endswith("changed while it was read")
    assert _said(written.archive, None) == (3, UNSIGNED)


def test_verb_verifies_and_names_what_is_wrong(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = key_in(tmp_path)
    written = handed(site, key)
    allowed = str(signers(key))
    words = ("report", "verify", str(written.archive), "--allowed-signers", allowed)
    assert run(monkeypatch, *words, "--site", str(site)) == 0
    shown = capsys.readouterr().out
    assert "UNCHANGED SINCE HAND-OVER" in shown
    assert "signed by acme" in shown
    assert "compared with the last answers of its hosts, the oldest of 20" in shown
    assert run(monkeypatch, *words[:3]) == 3
    assert "NOT VERIFIED" in capsys.readouterr().out
    _tell(site, **{"gpu-1": _facts("gpu-1", first=1)})
    assert run(monkeypatch, *words, "--site", str(site)) == 1
    assert "THE SITE HAS CHANGED SINCE" in capsys.readouterr().out
    assert run(monkeypatch, "report", "verify") == 2
    assert run(monkeypatch, "report", "verify", str(site / "site.yml")) == 2
    assert run(monkeypatch, "report", "--allowed-signers", allowed) == 2


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ('#!/bin/sh\nfor a; do case $a in --print-to-pdf=*) echo x > "${a#*=}";; esac; done\n', ""),
        ("#!/bin/sh\nexit 0\n", "produced none"),
        ("#!/bin/sh\necho broken >&2; exit 3\n", "failed with 3: broken"),
    ],
)
def test_browser_that_prints_nothing_costs_the_pdf_and_not_the_hand_over(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    (tmp_path / "bin").mkdir()
    browser = tmp_path / "bin/chromium"
    browser.write_text(script)
    browser.chmod(0o755)
    monkeypatch.setattr(handover, "BROWSERS", (str(browser),))
    written = handed(site)
    assert (written.folder / "handover.pdf").is_file() is (why == "")
    assert why in written.handover.pdf
    assert json.loads((written.folder / "handover.json").read_text())["handover"]["pdf"] == (
        written.handover.pdf
    )
    assert _said(written.archive, None) == (3, UNSIGNED)


@pytest.mark.slow
def test_no_octet_of_manifest_and_signature_changes_unseen(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each octet of the manifest and its signature, one in seven of headers, which meets each of their 512 places, one in 97 of what is digested whole.

    One bit of it, another bit each time.
    """
    key = key_in(tmp_path)
    written = handed(site, key)
    allowed = signers(key)
    # Who signed depends on two files alone, and ssh-keygen need not be asked of the same two again.
    asked: dict[tuple[bytes, bytes], str] = {}
    ask = signing.signer_of

    def signer_of(signature: Path, content: bytes, allowed: Path) -> str:
        of = signature.read_bytes(), content
        if of not in asked:
            asked[of] = ask(signature, content, allowed)
        return asked[of]

    monkeypatch.setattr(signing, "signer_of", signer_of)
    assert _said(written.archive, allowed) == (0, "")
    whole = written.archive.read_bytes()
    unseen = []
    with written.archive.open("r+b", buffering=0) as file:
        for at in sorted(_telling(written.archive)):
            octet = whole[at]
            _put(file, at, octet ^ 1 << at % 8)
            try:
                if _said(written.archive, allowed)[0] != 1:
                    unseen.append(at)
            except ConfigError:
                pass
            _put(file, at, octet)
    assert _said(written.archive, allowed) == (0, "")
    assert not unseen
    assert len(asked) > 500


def _telling(archive: Path) -> set[int]:
    told = set(range(0, archive.stat().st_size, 97))
    with tarfile.open(archive) as opened:
        for member in opened:
            headers = range(member.offset, member.offset_data)
            told.update(headers[-member.offset % 7 :: 7])
            if MANIFEST in member.name:
                told.update(range(member.offset, member.offset_data + member.size))
    return told


def _put(file: RawIOBase, at: int, octet: int) -> None:
    file.seek(at)
    file.write(bytes([octet]))
