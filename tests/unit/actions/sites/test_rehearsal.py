"""A rehearsal around its rack: what is refused before it, and that it always goes, with the site untouched."""

from collections.abc import Callable
from hashlib import sha256
from ipaddress import IPv4Network
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from appliance.actions.deployment import plan
from appliance.actions.deployment.deploy import Deployed
from appliance.actions.sites import rehearsal, virtual_rack
from appliance.actions.sites.opening import Target
from appliance.config.load import load_site
from appliance.config.secrets import resolve
from appliance.engine.accept.declared_site import DECLARED, declared
from appliance.errors import ApplianceError, ConfigError
from appliance.journal import Journal
from appliance.lab.spec import Member, RackSpec
from appliance.models.result import CheckResult, Status, Verdict
from appliance.models.run import StageOutcome, StageState
from appliance.report.documents import Rehearsal
from tests.support import command_line
from tests.support.engine_fakes import Recorder
from tests.support.site_folder import site_folder

__all__ = ["site_folder"]

NAME = "reh"


class FakeRacks(ModuleType):
    """Racks that are folders; their hosts answer every command with silence."""

    def __init__(self, folder: Path) -> None:
        super().__init__("racks")
        self.Member, self.RackSpec = Member, RackSpec
        self.folder = folder
        self.standing: set[str] = set()
        self.raised: list[RackSpec] = []
        self.requirements = SimpleNamespace(require=lambda: None, available_mib=lambda: 16384)
        self.repository = SimpleNamespace(
            KEY="lab.asc", address=lambda _: "http://10.77.1.1:8070", fingerprint=lambda _: "A" * 40
        )
        silence = SimpleNamespace(returncode=0, stdout="", stderr="")
        self.ssh = SimpleNamespace(on_host=lambda *_, **__: silence)

    def cluster_keys(self) -> dict[str, dict[str, str]]:
        return {}

    def load(self, name: str) -> object:
        return name in self.standing or None

    def up(self, wanted: RackSpec, say: Callable[[str], None]) -> object:
        self.raised.append(wanted)
        self.standing.add(wanted.name)
        site = self.folder / wanted.name / "site"
        site.mkdir(parents=True)
        hosts = [
            SimpleNamespace(name=m.name, roles=m.roles, is_gpu="gpu" in m.roles)
            for m in wanted.members
        ]
        return SimpleNamespace(
            site_dir=site, network=IPv4Network("10.77.1.0/24"), hosts=hosts, spec=wanted
        )

    def down(self, name: str) -> bool:
        self.standing.discard(name)
        return True


@pytest.fixture
def racks(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> FakeRacks:
    """Racks, and deployments that succeed."""
    made = FakeRacks(tmp_path_factory.mktemp("racks"))
    monkeypatch.setattr(virtual_rack, "maker", lambda: made)
    _deploying(monkeypatch, lambda _: ())
    monkeypatch.setattr(plan, "make", lambda *_: SimpleNamespace(drained=()))
    return made


def _deploying(monkeypatch: pytest.MonkeyPatch, fails: Callable[[int], tuple[Any, ...]]) -> None:
    """Deployments whose outcomes ``fails`` gives, by their number from 1."""
    count = iter(range(1, 9))

    def deploy(*_: object) -> Deployed:
        record: Any = SimpleNamespace(outcomes=fails(next(count)), results=())
        return Deployed(record, Verdict.PASSED.exit_code)

    monkeypatch.setattr(rehearsal, "deploy", deploy)


def _failed() -> tuple[Any, ...]:
    failed = StageOutcome(
        stage="gpu", host="gpu-1", state=StageState.FAILED, cause="no driver", fix="choose one"
    )
    return (failed, failed.model_copy(update={"state": StageState.NOT_RUN, "cause": "unseen"}))


def _rehearse(folder: Path, *, keep: bool = False, most: int | None = None) -> Rehearsal:
    return rehearsal.rehearse(
        Target(folder), NAME, most, keep=keep, say=lambda _: None, observer=Recorder()
    )


def _was_deployed(folder: Path) -> None:
    loaded = load_site(folder)
    now = declared(loaded.sources, resolve(loaded.site, loaded.folder))
    kept = {key: value for key, value in vars(now).items() if key != "run"}
    with Journal(folder / "runs") as journal:
        journal.append("r1", DECLARED, **kept)


def _content(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(file): sha256(file.read_bytes()).hexdigest() for file in files}


def test_the_site_is_untouched_and_the_rack_goes(site_folder: Path, racks: FakeRacks) -> None:
    _was_deployed(site_folder)
    before = _content(site_folder)
    done = _rehearse(site_folder)
    assert (done.outcome, done.deployed, done.rack) == ("passed", "r1", "")
    assert _content(site_folder) == before
    assert racks.standing == set()


def test_no_secret_of_the_site_is_on_the_rack(site_folder: Path, racks: FakeRacks) -> None:
    _was_deployed(site_folder)
    loaded = load_site(site_folder)
    secrets = resolve(loaded.site, loaded.folder)
    _rehearse(site_folder)
    written = "".join(p.read_text() for p in racks.folder.rglob("*") if p.is_file())
    assert "munge_key" in written
    assert not [name for name, value in secrets.items() if str(value) in written]


def test_a_changed_secret_changes_there_too(
    site_folder: Path, racks: FakeRacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    _was_deployed(site_folder)
    secret = site_folder / "secrets/slurmdbd_password"
    secret.chmod(0o600)
    secret.write_text("another-password\n")
    seen: list[dict[str, str]] = []

    def fails(_: int) -> tuple[Any, ...]:
        folder = racks.folder / NAME / "site/secrets"
        seen.append({file.name: file.read_text() for file in folder.iterdir()})
        return ()

    _deploying(monkeypatch, fails)
    _rehearse(site_folder)
    before, after = seen
    assert {name for name in after if before[name] != after[name]} == {"slurmdbd_password"}


def test_without_a_record_the_change_is_made_to_new_hosts(
    site_folder: Path, racks: FakeRacks
) -> None:
    done = _rehearse(site_folder)
    assert done.deployed == ""
    assert "no deployment is recorded" in done.not_rehearsed[0]


def test_a_kept_rack_stays_and_is_not_used_again(site_folder: Path, racks: FakeRacks) -> None:
    assert _rehearse(site_folder, keep=True).rack == NAME
    assert racks.standing == {NAME}
    with pytest.raises(ConfigError, match="rack reh exists"):
        _rehearse(site_folder)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError()])
def test_the_rack_goes_whatever_happens(
    error: BaseException,
    site_folder: Path,
    racks: FakeRacks,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def deploy(*_: object) -> Deployed:
        raise error

    _was_deployed(site_folder)
    monkeypatch.setattr(rehearsal, "deploy", deploy)
    with pytest.raises(type(error)):
        _rehearse(site_folder, keep=True)
    assert racks.standing == set()


def test_a_rack_that_does_not_start_is_no_failure_of_the_change(
    site_folder: Path, racks: FakeRacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def up(*_: object) -> object:
        raise ApplianceError("gpu-1 did not answer")

    monkeypatch.setattr(racks, "up", up)
    with pytest.raises(ApplianceError, match="gpu-1 did not answer") as found:
        _rehearse(site_folder)
    assert found.value.exit_code == 3


def test_a_recorded_site_that_is_refused_now_was_not_tried(
    site_folder: Path, racks: FakeRacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deploy(*_: object) -> Deployed:
        raise ConfigError("quota is larger than the GPUs", "lower it")

    _was_deployed(site_folder)
    monkeypatch.setattr(rehearsal, "deploy", deploy)
    done = _rehearse(site_folder)
    assert (done.outcome, done.fix) == ("not tried", "lower it")
    assert done.cause.endswith("quota is larger than the GPUs")


@pytest.mark.parametrize(("bad", "outcome", "code"), [(2, "failed", 1), (1, "not tried", 3)])
def test_failures_before_the_change_are_not_the_changes(
    bad: int,
    outcome: str,
    code: int,
    site_folder: Path,
    racks: FakeRacks,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _was_deployed(site_folder)
    _deploying(monkeypatch, lambda n: _failed() if n == bad else ())
    argv = ("rehearse", "--site", str(site_folder), "--name", NAME)
    assert command_line.run(monkeypatch, *argv) == code
    out = capsys.readouterr().out
    assert outcome.upper() in out
    assert "no driver" in out
    assert "fix: choose one" in out
    assert "unseen" not in out


def test_a_required_check_without_a_verdict_is_no_pass(
    site_folder: Path, racks: FakeRacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = CheckResult(
        id="slurm.nodes", target="head", status=Status.NOT_ASSESSED, cause="no answer"
    )
    _was_deployed(site_folder)
    count = iter(range(9))

    def deploy(*_: object) -> Deployed:
        record: Any = SimpleNamespace(outcomes=(), results=(unknown,) if next(count) else ())
        return Deployed(record, Verdict.INCOMPLETE.exit_code)

    monkeypatch.setattr(rehearsal, "deploy", deploy)
    done = _rehearse(site_folder)
    assert (done.outcome, [one.id for one in done.checks]) == ("failed", ["slurm.nodes"])


def test_a_blocked_stage_says_why(
    site_folder: Path, racks: FakeRacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = StageOutcome(
        stage="slurm", host="head", state=StageState.BLOCKED, why="another cluster's state"
    )
    _was_deployed(site_folder)
    _deploying(monkeypatch, lambda n: (blocked,) if n == 2 else ())
    done = _rehearse(site_folder)
    assert done.outcome == "failed"
    assert [one.cause for one in done.failures] == ["another cluster's state"]


def test_a_refused_change_fails_with_its_cause(
    site_folder: Path, racks: FakeRacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> object:
        raise ConfigError("partition short still has jobs", "wait for them")

    _was_deployed(site_folder)
    monkeypatch.setattr(plan, "make", refuse)
    done = _rehearse(site_folder)
    assert (done.outcome, done.cause, done.fix) == ("failed", "partition short still has jobs", "wait for them")  # fmt: skip


def test_hosts_without_room_are_named(site_folder: Path, racks: FakeRacks) -> None:
    everyone = [host.name for host in load_site(site_folder).site.hosts]
    done = _rehearse(site_folder, most=2)
    assert {*done.hosts, *done.left_out} == {*everyone}
    assert done.left_out


MISTAKES = {
    "overlapping networks": ("cidr: 10.0.8.0/24", "cidr: 10.0.0.0/16", "overlaps"),
    "a partition without hosts": ("roles: [gpu]", "roles: [login]", 'no host has the role "gpu"'),
    "the server of an export is gone": ("control, storage, login", "control, login", 'no host has the role "storage"'),
    "a user without its group": ("base:\n", 'base:\n  users: [{name: ann, uid: 3000, groups: [lab], keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"]}]\n', "there is no group lab"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_of_the_text_are_refused_before_a_rack_is_raised(
    mistake: str,
    site_folder: Path,
    racks: FakeRacks,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    old, new, says = MISTAKES[mistake]
    file = site_folder / "site.yml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    assert command_line.run(monkeypatch, "rehearse", "--site", str(site_folder)) == 2
    assert says in capsys.readouterr().err
    assert racks.raised == []


def test_a_key_that_its_daemon_cannot_read_is_refused(
    site_folder: Path,
    racks: FakeRacks,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    key = site_folder / "secrets/munge_key"
    key.chmod(0o600)
    key.write_text("short\n")
    assert command_line.run(monkeypatch, "rehearse", "--site", str(site_folder)) == 2
    assert "secrets.munge_key" in capsys.readouterr().err
    assert racks.raised == []


def test_jobs_that_do_not_start_are_named_and_fail_nothing(
    site_folder: Path, racks: FakeRacks
) -> None:
    refusal = SimpleNamespace(returncode=1, stdout="", stderr="Invalid account")
    racks.ssh.on_host = lambda *_, **__: refusal
    _was_deployed(site_folder)
    done = _rehearse(site_folder)
    assert done.outcome == "passed"
    assert "jobs: none started on the rack (Invalid account)" in done.not_rehearsed


def test_a_linked_journal_is_not_followed(
    site_folder: Path, racks: FakeRacks, tmp_path: Path
) -> None:
    _was_deployed(site_folder)
    journal = site_folder / "runs/journal.sqlite"
    away = journal.rename(tmp_path / "elsewhere.sqlite")
    journal.symlink_to(away)
    with pytest.raises(ApplianceError, match="link"):
        _rehearse(site_folder)
    assert racks.raised == []


@pytest.mark.parametrize(("section", "says"), [
    ('kubernetes: {external: kubeconfig}\n', "external cluster"),
])  # fmt: skip
def test_a_site_that_no_rack_can_have_is_refused(
    section: str, says: str, site_folder: Path, racks: FakeRacks
) -> None:
    (site_folder / "kubeconfig").touch(mode=0o600)
    with (site_folder / "site.yml").open("a") as file:
        file.write(section)
    with pytest.raises(ConfigError, match=says):
        _rehearse(site_folder)
    assert racks.raised == []
