"""appliance etcd on three real members of etcd: their hosts' folders stand in for machines, a thread for kubelet."""

import json
import os
import subprocess  # noqa: TID251 - members must be held by their handles
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.process import run
from tests.integration import api_server
from tests.support.engine_session import hosts, recorder, session
from tests.support.etcd_bench import HEADS, Bench, Head, bench, only_the_last_is_left

__all__ = ["bench", "hosts", "recorder", "session"]

pytestmark = pytest.mark.cluster
SECONDS = 120.0
TOOLS = ("etcdctl", "etcdutl")
KEY = "/registry/configmaps/default/kept"


class Member(Head):
    """A head whose etcd is real: it runs while its manifest is where kubelet looks."""

    def __init__(self, folder: Path, name: str, address: str) -> None:
        super().__init__(folder, name, address)
        (self.data / "member/db").unlink()
        (self.data / "member").rmdir()
        self.client, self.peer = (f"http://127.0.0.1:{port}" for port in api_server.ports(2))
        said = f"    - --name={name}\n    - --initial-advertise-peer-urls={self.peer}\n"
        (self.manifests / "etcd.yaml").write_text(said)
        self.process: subprocess.Popen[bytes] | None = None

    def program(self, name: str) -> Any:
        found: Any = super().program(name)
        found.running = lambda program: [1] if program == "etcd" and self.process else []
        return found

    def run(self, *argv: str, check: bool = True) -> str:
        if argv[0] == "kubectl":
            return "ok" if self.is_healthy else "no"
        if argv[0] not in TOOLS:
            return ""
        words = [word for word in argv[1:] if not word.startswith(("--cacert", "--cert", "--key="))]
        words = [f"--endpoints={self.client}" if w.startswith("--endpoints") else w for w in words]
        return run(
            (str(api_server.compiled() / argv[0]), *words), env={"ETCDCTL_API": "3"}, check=check
        ).stdout

    def ask(self, *words: str) -> str:
        """etcdctl on this member alone."""
        return self.run("etcdctl", "--endpoints=", *words, check=False)

    @property
    def is_healthy(self) -> bool:
        return '"health":true' in self.ask("endpoint", "health", "-w", "json")

    def follow(self, cluster: str) -> None:
        """What kubelet does."""
        if self.is_up and not self.process:
            given = {
                "--name": self.name,
                "--data-dir": str(self.data),
                "--listen-client-urls": self.client,
                "--advertise-client-urls": self.client,
                "--listen-peer-urls": self.peer,
                "--initial-advertise-peer-urls": self.peer,
                "--initial-cluster": cluster,
            }
            argv = [
                str(api_server.compiled() / "etcd"),
                *(f"{key}={value}" for key, value in given.items()),
            ]
            with (self.folder / "etcd.log").open("ab") as log:
                self.process = subprocess.Popen(argv, stdout=log, stderr=log)
        elif self.process and not self.is_up:
            self.process.terminate()
            self.process.wait()
            self.process = None


@pytest.fixture
def members(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Member]]:
    """Three members of one cluster, in the place of the bench's heads; etcdutl, which restores since 3.6, is found as on a host."""
    monkeypatch.setenv("PATH", f"{api_server.compiled()}:{os.environ['PATH']}")
    made = [Member(tmp_path / "real", name, "127.0.0.1") for name in HEADS]
    cluster = ",".join(f"{m.name}={m.peer}" for m in made)
    bench.world.heads = {m.name: m for m in made}
    over = threading.Event()

    def kubelet() -> None:
        while not over.wait(0.2):
            for member in made:
                member.follow(cluster)

    thread = threading.Thread(target=kubelet)
    thread.start()
    try:
        until_healthy(made)
        yield made
    finally:
        over.set()
        thread.join()
        for member in made:
            if member.process:
                member.process.kill()
                member.process.wait()


def until_healthy(members: list[Member]) -> None:
    end = time.monotonic() + SECONDS
    while not all(member.is_healthy for member in members):
        assert time.monotonic() < end, (members[0].folder / "etcd.log").read_text()[-3000:]
        time.sleep(0.3)


def identity(member: Member) -> tuple[int, set[str]]:
    """The cluster's number, and the names of its members."""
    told = json.loads(member.ask("member", "list", "-w", "json"))
    return told["header"]["cluster_id"], {found["name"] for found in told["members"]}


def written(bench: Bench, members: list[Member]) -> str:
    """A backup with the key, which is then deleted; its name."""
    members[0].ask("put", "/registry/authority", "OF-THIS-CLUSTER")
    members[0].ask("put", KEY, "first")
    name: str = json.loads(bench.run("save", "--json").output)["name"]
    members[2].ask("del", KEY)
    assert members[1].ask("get", KEY, "--print-value-only") == ""
    return name


def test_three_members_are_one_healthy_cluster_with_the_state_of_the_backup(
    bench: Bench, members: list[Member]
) -> None:
    before, _ = identity(members[0])
    done = bench.restore(written(bench, members))
    assert done.return_value == 0, done
    until_healthy(members)
    for member in members:
        assert member.ask("get", KEY, "--print-value-only", "--consistency=s").strip() == "first"
    (after, names), *others = [identity(member) for member in members]
    assert names == set(HEADS)
    assert all(other == (after, names) for other in others)
    assert after != before
    members[1].ask("put", KEY, "second")
    assert members[2].ask("get", KEY, "--print-value-only").strip() == "second"


def test_the_cluster_before_is_back_after_a_restore_that_hung(
    bench: Bench, members: list[Member]
) -> None:
    before, _ = identity(members[0])
    name = written(bench, members)
    members[0].ask("put", KEY, "later")
    members[1].broken["start"] = "it hangs"
    assert bench.restore(name).exception
    assert bench.run("abandon", "--yes").return_value == 0
    until_healthy(members)
    assert identity(members[2])[0] == before
    assert members[2].ask("get", KEY, "--print-value-only").strip() == "later"


def test_the_last_of_three_is_a_cluster_of_its_own_with_all_it_knew(
    bench: Bench, members: list[Member]
) -> None:
    members[0].ask("put", "/registry/authority", "OF-THIS-CLUSTER")
    members[0].ask("put", KEY, "last")
    assert members[2].ask("get", KEY, "--print-value-only").strip() == "last"
    only_the_last_is_left(bench)
    gone, (last,) = members[:2], members[2:]
    for member in gone:
        (member.manifests / "etcd.yaml").unlink()
    end = time.monotonic() + SECONDS
    while any(member.process for member in gone) or last.is_healthy:
        assert time.monotonic() < end
        time.sleep(0.3)
    name = json.loads(bench.run("save", "--json").output)["name"]
    done = bench.restore(name)
    assert done.return_value == 0, done
    until_healthy([last])
    assert identity(last)[1] == {last.name}
    assert last.ask("get", KEY, "--print-value-only").strip() == "last"
    last.ask("put", KEY, "goes on")
    assert last.ask("get", KEY, "--print-value-only").strip() == "goes on"
