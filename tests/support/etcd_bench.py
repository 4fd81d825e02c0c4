"""Etcd bench, as several test modules use it."""

import contextlib
import hashlib
import io
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from appliance.actions.kubernetes import etcd_backups as action
from appliance.actions.kubernetes import etcd_repair
from appliance.adapters.process import Completed
from appliance.cli.main import cli
from appliance.config.load import load_site
from appliance.engine.look.gather import PYTHON
from appliance.engine.session import Session
from appliance.errors import ConnectionFailed
from tests.support.engine_fakes import Recorder
from tests.support.role_programs import program

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


CLUSTER = f'kubernetes: {{version: "1.35", device_plugin: own, address: 10.1.0.100, address_image: "{HOLDER}"}}\n'


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
            # The note that the host is being changed, which tests/unit/engine/run/test_lease.py keeps.
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
        words = ["etcd", argv[0], "--site", str(self.file), *argv[1:]]
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
    bench.file.write_text(
        "\n".join([*left, 'kubernetes: {version: "1.35", device_plugin: own}', ""])
    )
