"""appliance etcd with the hosts' own programs on made-up hosts: refused in time, restored on all, and what a failure leaves."""

import contextlib
import hashlib
import io
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from appliance.actions import etcd as action
from appliance.actions import etcd_repair
from appliance.adapters.process import Completed
from appliance.cli.main import cli
from appliance.config.load import load_site
from appliance.engine.gather import PYTHON
from appliance.engine.session import Session
from appliance.errors import ConnectionFailed
from tests.unit.engine.conftest import hosts, recorder, session
from tests.unit.engine.world import Recorder
from tests.unit.roles.loading import program

__all__ = ["hosts", "recorder", "session"]

SITE = """version: 1
name: acme
profile: hpc
access: {user: root}
networks: {management: {cidr: 10.1.0.0/24}}
hosts:
  - {name: head, roles: [control, storage, login], address: 10.1.0.1}
  - {name: head-2, roles: [control], address: 10.1.0.2}
  - {name: head-3, roles: [control], address: 10.1.0.3}
  - {name: gpu-1, roles: [gpu], address: 10.1.0.11}
secrets: {munge_key: {env: A}, slurmdbd_password: {env: A}, kubernetes_encryption_key: {env: A}}
"""
HOLDER = f"mirror/kube-vip@sha256:{'0' * 64}"
CLUSTER = f'kubernetes: {{version: "1.35", address: 10.1.0.100, address_image: "{HOLDER}"}}\n'
HEADS = ("head", "head-2", "head-3")
AUTHORITY = (
    b"-----BEGIN CERTIFICATE-----\nFIRST\nOF-THIS-CLUSTER\nEND=\n-----END CERTIFICATE-----\n"
)
NAME = "20261122T113054Z"
THEN, NOW = b"state then OF-THIS-CLUSTER", b"state now OF-THIS-CLUSTER"


def snapshot(state: bytes) -> bytes:
    """As etcd writes one: its digest at the end."""
    return state + hashlib.sha256(state).digest()


class Head:
    """A control host in a folder: its programs, its member's state, and what stands in for etcd and kubelet."""

    def __init__(self, folder: Path, name: str, address: str) -> None:
        self.name, self.folder = name, folder / name
        self.broken: dict[str, str] = {}
        self.asked: list[str] = []
        self.flags: tuple[str, ...] = ()
        self.version = "3.6.5"
        self.data, self.backups = self.folder / "etcd", self.folder / "backups"
        self.manifests, self.parked = self.folder / "manifests", self.folder / "parked"
        self.order = self.folder / "order.json"
        for made in (self.data / "member", self.manifests, self.backups):
            made.mkdir(parents=True)
        (self.data / "member/db").write_bytes(NOW)
        (self.folder / "ca.crt").write_bytes(AUTHORITY)
        peer = f"https://{address}:2380"
        said = f"    - --name={name}\n    - --initial-advertise-peer-urls={peer}\n"
        said += "    image: registry.k8s.io/etcd:3.6.5-0\n"
        (self.manifests / "etcd.yaml").write_text(said)
        (self.manifests / "kube-apiserver.yaml").write_text("")

    @property
    def state(self) -> bytes:
        """What the member has."""
        return (self.data / "member/db").read_bytes()

    @property
    def is_up(self) -> bool:
        return (self.manifests / "etcd.yaml").exists()

    def backup(self, name: str, content: bytes) -> None:
        (self.backups / f"{name}.snapshot").write_bytes(content)

    def program(self, name: str) -> ModuleType:
        """One of the role's programs, at home in the folder."""
        found: Any = program(Path(f"roles/kubernetes/files/usr/local/sbin/{name}"))
        if name == "appliance-etcd":
            found.PKI = str(self.folder)
        else:
            found.DATA, found.MANIFESTS = str(self.data), str(self.manifests)
            found.PARKED, found.ORDER = str(self.parked), str(self.order)
            found.AUTHORITY = str(self.folder / "ca.crt")
            found.running = lambda program: [1] if self.is_up and program == "etcd" else []
            found.bounce = lambda component: None
            found.PART = 20
        found.run = self.run
        return found  # type: ignore[no-any-return]

    def run(self, *argv: str, check: bool = True) -> str:
        """etcdctl, kubectl and systemctl."""
        del check
        if argv[1:] == ("version",):
            return f"{argv[0]} version: {self.version}\nAPI version: 3.6\n"
        if "save" in argv:
            Path(argv[-1]).write_bytes(snapshot(self.state))
        elif "--help" not in argv and "restore" in argv:
            self.flags = argv
            flags = dict(word.split("=", 1) for word in argv if word.startswith("--"))
            made = Path(flags["--data-dir"]) / "member"
            made.mkdir(parents=True)
            (made / "db").write_bytes(Path(argv[3]).read_bytes()[:-32])
        return "ok"


class World:
    """Three control hosts and a GPU host that can be asked."""

    def __init__(self, folder: Path) -> None:
        self.heads = {
            name: Head(folder, name, f"10.1.0.{number}") for number, name in enumerate(HEADS, 1)
        }
        self.down: set[str] = set()
        self.refreshed: list[str] = []
        self.dies_at: tuple[str, str] | None = None
        self._one_at_a_time = threading.Lock()

    def reach(self, host: str) -> None:
        if host in self.down:
            raise ConnectionFailed(f"{host} does not answer", "power it on", host)

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        """See Remote; a host that dies answers nothing from then on."""
        del timeout
        if argv[0] == PYTHON:
            # The note that the host is being changed, which tests/unit/engine/test_lease.py keeps.
            self.reach(host)
            return Completed(tuple(argv), 0, '{"taken": true}', "")
        if (host, argv[1]) == self.dies_at:
            self.down.add(host)
        self.reach(host)
        if host not in self.heads:
            self.refreshed.append(host)
            return Completed(tuple(argv), 0, "", "")
        with self._one_at_a_time:
            return self._done(self.heads[host], argv, input or b"")

    def _done(self, head: Head, argv: Sequence[str], content: bytes) -> Completed:
        head.asked.append(argv[1])
        if argv[1] in head.broken:
            return Completed(tuple(argv), 1, "", f"{Path(argv[0]).name}: {head.broken[argv[1]]}")
        words = [
            str(head.backups) if word == "/var/backups/appliance/etcd" else word for word in argv
        ]
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", words)
            patch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = head.program(Path(argv[0]).name).main()
        return Completed(tuple(argv), code, out.getvalue(), err.getvalue())

    def states(self) -> set[bytes]:
        return {head.state for head in self.heads.values()}

    def untouched(self) -> bool:
        """Whether every member is as ever, and nothing is left that another restore would meet."""
        left = [path for head in self.heads.values() for path in head.data.iterdir()]
        orders = [head for head in self.heads.values() if head.order.exists()]
        up = all(head.is_up for head in self.heads.values())
        return up and not orders and self.states() == {NOW} and {p.name for p in left} == {"member"}


class Bench:
    def __init__(self, file: Path, world: World, recorder: Recorder) -> None:
        self.file, self.world, self.recorder = file, world, recorder

    def run(self, *argv: str) -> Result:
        words = ["etcd", argv[0], "--inventory", str(self.file), *argv[1:]]
        return CliRunner().invoke(cli, words, standalone_mode=False)

    def restore(self, name: str = NAME) -> Result:
        return self.run("restore", name, "--yes")


@pytest.fixture
def bench(
    session: Session, recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bench:
    monkeypatch.setenv("A", "x")
    file = tmp_path / "site.yml"
    file.write_text(SITE + CLUSTER)
    (tmp_path / "known_hosts").write_text("")
    made = Bench(file, World(tmp_path), recorder)
    made.world.heads["head-2"].backup(NAME, snapshot(THEN))
    object.__setattr__(session, "remote", made.world)

    @contextlib.contextmanager
    def opened(*_: object, **__: object) -> Iterator[Session]:
        object.__setattr__(session, "site", load_site(file).site)
        yield session

    for module in (action, etcd_repair):
        monkeypatch.setattr(module, "open_session", opened)
    return made


def only_the_last_is_left(bench: Bench) -> None:
    """Two control hosts are gone, and the site is the copy without them that docs/kubernetes.md asks for."""
    gone = ("head", "head-2")
    bench.world.down.update(gone)
    left = [
        line for line in SITE.splitlines() if not any(f"name: {name}," in line for name in gone)
    ]
    bench.file.write_text("\n".join([*left, 'kubernetes: {version: "1.35"}', ""]))


def heads(bench: Bench) -> list[Head]:
    return list(bench.world.heads.values())


def test_a_backup_of_one_member_is_restored_on_all_as_one_cluster(bench: Bench) -> None:
    done = bench.restore()
    assert done.return_value == 0, done
    assert bench.world.states() == {THEN}
    assert all(head.is_up for head in heads(bench))
    cluster = "head=https://10.1.0.1:2380,head-2=https://10.1.0.2:2380,head-3=https://10.1.0.3:2380"
    tokens = set()
    for head in heads(bench):
        flags = dict(word.split("=", 1) for word in head.flags if word.startswith("--"))
        assert flags["--name"] == head.name
        assert flags["--initial-cluster"] == cluster
        assert flags["--initial-advertise-peer-urls"].startswith("https://10.1.0.")
        tokens.add(flags["--initial-cluster-token"])
        (kept,) = head.data.glob("before-*/member/db")
        assert kept.read_bytes() == NOW
        assert list(head.backups.glob(".*")) == []
    assert len(tokens) == 1
    assert bench.world.refreshed == ["gpu-1"]


def test_the_state_before_is_a_backup_that_leads_back(bench: Bench) -> None:
    bench.restore()
    (before,) = [
        p.stem for p in bench.world.heads["head-2"].backups.glob("*.snapshot") if p.stem != NAME
    ]
    assert bench.restore(before).return_value == 0
    assert bench.world.states() == {NOW}


def test_every_member_is_made_ready_before_one_is_stopped_and_all_are_stopped_before_one_is_changed(
    bench: Bench,
) -> None:
    bench.world.heads["head-3"].broken["stop"] = "etcd does not stop"
    done = bench.restore()
    assert "etcd does not stop" in str(done.exception)
    assert bench.world.states() == {NOW}
    assert not any("swap" in head.asked for head in heads(bench))


@pytest.mark.parametrize("silent", HEADS)
def test_a_control_host_that_does_not_answer_is_named_and_nothing_is_touched(
    silent: str, bench: Bench
) -> None:
    bench.world.down.add(silent)
    done = bench.restore()
    assert f"{silent} does not answer" in str(done.exception)
    assert "nothing was touched" in str(done.exception)
    assert getattr(done.exception, "hint", "") == "power it on"
    assert bench.world.untouched()


def test_where_most_control_hosts_do_not_answer_the_way_out_is_named(bench: Bench) -> None:
    bench.world.down.update(("head", "head-2"))
    hint = getattr(bench.restore().exception, "hint", "")
    file, _, heading = hint.partition("gone for good: ")[2].partition(", ")
    assert f"\n## {heading}\n" in Path(file).read_text()


def test_the_last_of_three_control_hosts_is_a_cluster_of_its_own_with_what_it_had_last(
    bench: Bench,
) -> None:
    only_the_last_is_left(bench)
    saved = json.loads(bench.run("save", "--json").output)
    assert saved["host"] == "head-3"
    done = bench.restore(saved["name"])
    assert done.return_value == 0, done
    last = bench.world.heads["head-3"]
    assert "--initial-cluster=head-3=https://10.1.0.3:2380" in last.flags
    assert last.is_up
    assert last.state == NOW
    assert bench.world.refreshed == ["gpu-1"]
    assert not any(head.asked for head in heads(bench)[:2])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, f"no control host has a backup {NAME}"),
        (b"", "was cut off or changed"),
        (snapshot(THEN)[:-1], "was cut off or changed"),
        (snapshot(THEN).replace(b"then", b"thne"), "was cut off or changed"),
        (snapshot(b"state of ANOTHER-CLUSTER"), "is of another cluster"),
    ],
)
def test_a_backup_that_is_missing_damaged_or_of_another_cluster_is_refused(
    content: bytes | None, said: str, bench: Bench
) -> None:
    file = bench.world.heads["head-2"].backups / f"{NAME}.snapshot"
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    done = bench.restore()
    assert said in str(done.exception)
    assert bench.world.untouched()


def test_a_backup_whose_own_digest_says_otherwise_is_refused_and_a_good_one_elsewhere_taken(
    bench: Bench,
) -> None:
    (bench.world.heads["head-2"].backups / f"{NAME}.sha256").write_text("0  x\n")
    assert "not what its digest says" in str(bench.restore().exception)
    bench.world.heads["head-3"].backup(NAME, snapshot(THEN))
    assert bench.restore().return_value == 0
    assert bench.world.states() == {THEN}


def test_control_hosts_of_two_clusters_are_refused(bench: Bench) -> None:
    (bench.world.heads["head-3"].folder / "ca.crt").write_text("-\nA\nB\nC\n-\n")
    assert "not of one cluster" in str(bench.restore().exception)
    assert bench.world.untouched()


def test_a_control_host_without_a_member_is_refused(bench: Bench) -> None:
    (bench.world.heads["head-3"].manifests / "etcd.yaml").unlink()
    done = bench.restore()
    assert "no member of etcd is here" in str(done.exception)
    assert bench.world.states() == {NOW}


def test_a_state_that_cannot_be_made_on_one_host_leaves_all_as_they_were(bench: Bench) -> None:
    bench.world.heads["head-3"].broken["prepare"] = "No space left on device"
    done = bench.restore()
    assert "No space left on device; nothing was touched" in str(done.exception)
    assert bench.world.untouched()
    bench.world.heads["head-3"].broken.clear()
    assert bench.restore().return_value == 0


@pytest.mark.parametrize("step", ["stop", "swap", "start", "ready", "finish"])
def test_a_host_that_dies_on_the_way_is_named_and_the_same_command_goes_on(
    step: str, bench: Bench
) -> None:
    bench.world.dies_at = ("head-2", step)
    failed = bench.restore().exception
    assert getattr(failed, "host", "") == "head-2"
    bench.world.dies_at = None
    again = bench.restore()
    assert "head-2 does not answer" in str(again.exception)
    bench.world.down.clear()
    other = bench.restore("20200101T000000Z")
    assert f"a restore of {NAME} is under way" in str(other.exception)
    assert bench.restore().return_value == 0
    assert bench.world.states() == {THEN}
    assert all(head.is_up for head in heads(bench))
    identifiers = {json.loads(head.order.read_text())["id"] for head in heads(bench)}
    assert len(identifiers) == 1


@pytest.mark.parametrize("step", ["stop", "swap", "start", "ready"])
def test_a_restore_that_was_cut_off_can_be_taken_back(step: str, bench: Bench) -> None:
    bench.world.heads["head-2"].broken[step] = "it hangs"
    failed = bench.restore().exception
    assert "appliance etcd abandon" in getattr(failed, "hint", "")
    done = bench.run("abandon", "--yes")
    assert done.return_value == 0, done
    assert bench.world.untouched()
    assert "no restore is under way" in str(bench.run("abandon", "--yes").exception)


def test_two_of_three_go_back_without_the_third_which_follows(bench: Bench) -> None:
    bench.world.dies_at = ("head-3", "swap")
    bench.restore()
    bench.world.dies_at = None
    assert bench.run("abandon", "--yes").return_value == 0
    assert {bench.world.heads[name].state for name in ("head", "head-2")} == {NOW}
    bench.world.down.clear()
    assert bench.run("abandon", "--yes").return_value == 0
    assert bench.world.untouched()


def test_one_of_three_alone_does_not_go_back(bench: Bench) -> None:
    bench.world.dies_at = ("head-3", "swap")
    bench.restore()
    bench.world.down.add("head-2")
    assert "most of etcd's members" in str(bench.run("abandon", "--yes").exception)
    assert not bench.world.heads["head"].is_up


def test_what_is_through_on_one_is_not_taken_back(bench: Bench) -> None:
    bench.world.heads["head-3"].broken["finish"] = "it hangs"
    bench.restore()
    assert "the restore is through on head, head-2" in str(bench.run("abandon", "--yes").exception)
    assert bench.world.states() == {THEN}


def test_a_member_that_lost_its_part_does_not_begin_anew_beside_the_others(bench: Bench) -> None:
    bench.world.heads["head-2"].broken["ready"] = "it hangs"
    bench.restore()
    bench.world.heads["head-3"].order.unlink()
    bench.world.heads["head-2"].broken.clear()
    assert "head-3 knows nothing of the restore" in str(bench.restore().exception)


def test_a_site_without_a_cluster_of_its_own_is_refused_before_a_host_is_asked(
    bench: Bench,
) -> None:
    bench.file.write_text(SITE)
    for argv in (("list",), ("save",), ("restore", NAME, "--yes"), ("abandon", "--yes")):
        refused = bench.run(*argv).exception
        assert getattr(refused, "exit_code", None) == 2, argv
    assert not any(head.asked for head in heads(bench))


def test_without_a_terminal_yes_is_needed(bench: Bench) -> None:
    assert "add --yes" in str(bench.run("restore", NAME).exception)
    assert not any(head.asked for head in heads(bench))


def test_list_tells_of_each_host_and_of_one_that_does_not_answer(bench: Bench) -> None:
    bench.world.down.add("head-3")
    done = bench.run("list", "--json")
    assert done.return_value == 1
    told = json.loads(done.output)["hosts"]
    assert told["head"] == {"error": "", "fix": "", "backups": []}
    assert [b["name"] for b in told["head-2"]["backups"]] == [NAME]
    assert told["head-3"] == {
        "error": "head-3 does not answer",
        "fix": "power it on",
        "backups": None,
    }
    assert NAME in bench.run("list").output


def test_the_first_member_that_answers_writes_a_backup(bench: Bench) -> None:
    bench.world.down.add("head")
    done = bench.run("save", "--json")
    found = json.loads(done.output)
    assert found["host"] == "head-2"
    assert (bench.world.heads["head-2"].backups / f"{found['name']}.snapshot").exists()
    bench.world.down.update(HEADS)
    assert "head does not answer" in str(bench.run("save").exception)


def test_a_host_with_older_programs_says_how_it_gets_newer_ones(bench: Bench) -> None:
    bench.world.heads["head"].broken["look"] = "command not found"
    assert getattr(bench.restore().exception, "hint", "") == "appliance deploy --stage kubernetes"


@pytest.mark.parametrize(
    ("version", "fits"), [("3.4.30", False), ("3.5.16", False), ("3.7.0", True)]
)
def test_a_tool_older_than_etcd_makes_no_state_for_it(
    version: str, fits: bool, bench: Bench
) -> None:
    bench.world.heads["head-3"].version = version
    done = bench.restore()
    assert (done.return_value == 0) is fits
    if not fits:
        assert "etcdutl 3.6" in str(done.exception)
        assert bench.world.untouched()
