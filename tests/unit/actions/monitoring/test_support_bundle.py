"""A support bundle: no secret leaves, silent hosts are named, and it is judged again with the same results."""

import base64
import io
import json
import random
import string
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from appliance.actions.monitoring import health, support_bundle
from appliance.actions.sites import reports
from appliance.actions.sites.opening import Target
from appliance.adapters.process import Completed
from appliance.adapters.support_archive import first_files
from appliance.config.data import built_root
from appliance.config.secrets import Redactor, Secret
from appliance.engine.look import bundled
from appliance.engine.look.gather import Round
from appliance.engine.session import Session
from appliance.errors import ConfigError
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult
from appliance.models.site import Host
from appliance.stages.scheduler.facts import HelmRelease, SchedulerFacts
from appliance.support import collect, shapes
from tests.support.bundled_tree import SOURCES, plant
from tests.support.engine_fakes import FakeHosts, Recorder, receipt_of
from tests.support.engine_session import hosts, recorder, session
from tests.support.facts import facts_of

__all__ = ["hosts", "recorder", "session"]
DAY = timedelta(days=1)
HOST = {"roles": ["gpu"], "address": "10.1.0.11"}
RANDOM = random.Random(43)
LETTERS = string.ascii_letters + string.digits


def word(length: int = 24) -> str:
    return "".join(RANDOM.choice(LETTERS) for _ in range(length))


SHAPES: dict[str, Callable[[str], str]] = {
    "key of a configuration": lambda w: f"StoragePass={w}",
    "YAML": lambda w: f"db_password: {w}",
    "JSON": lambda w: f'{{"token": "{w}", "user": "root"}}',
    "option": lambda w: f"mysql --user root --password {w} acme",
    "address": lambda w: f"GET https://user:{w}@mirror.example/debian 200",
    "header": lambda w: f"Authorization: Basic {w}",
    "bearer": lambda w: f"request with Bearer {w} refused",
    "private key": lambda w: f"-----BEGIN RSA PRIVATE KEY-----\n{w}\n-----END RSA PRIVATE KEY-----",
    "token of GitHub": lambda w: f"clone with ghp_{w}",
    "token of NGC": lambda w: f"key nvapi-{w}",
    "web token": lambda w: f"eyJhbGciOiJub25lIn0.{w}.",
    "password hash": lambda w: f"root:$6$salt${w}:19000:0",
    "webhook": lambda w: f"post https://hooks.slack.com/services/T0/B0/{w}",
    "environment": lambda w: f"Environment=AWS_SECRET_ACCESS_KEY={w}",
    "random line": lambda w: base64.b64encode((w + w).encode()).decode(),
}
"""How secrets occur that the site does not know."""
KNOWN: dict[str, Callable[[str], str]] = {
    "plain": lambda w: f"said {w} aloud",
    "base64": lambda w: f"said {base64.b64encode(w.encode()).decode()} aloud",
    "hex": lambda w: f"said {w.encode().hex()} aloud",
}
"""Encodings of the site's own secrets, without anything that announces them."""
PLACES = (*SOURCES, "journal", "error", "silence", "site.yml", "report.json", "report.html")


@dataclass
class World:
    """A site of three hosts, gpu-2 of which is down; each place holds ``texts``."""

    session: Session
    root: Path
    texts: dict[str, str] = field(default_factory=dict)

    def answer(self, host: str, argv: Sequence[str]) -> Completed:
        if "appliance.support.collect" in argv[-1]:
            request = {"since": 0, "units": [], "namespaces": [], "is_first": True}
            lines = "\n".join(collect.answer(request, str(self.root)))
            return Completed(tuple(argv), 0, f"Welcome!\n{lines}\n", "")
        errors = {"slurm": self.texts.get("error", "")}
        receipts = {"slurm": receipt_of("slurm", "f"), "base": receipt_of("base", "f")}
        facts = facts_of(host, errors=errors, receipts=receipts)
        return Completed(tuple(argv), 0, facts.model_dump_json(exclude={"posture"}), "")

    def make(self, output: Path, *hosts: str) -> support_bundle.Bundle:
        return support_bundle.make(Target(), Recorder(), hosts, DAY, output)


@pytest.fixture
def world(
    session: Session, hosts: FakeHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> World:
    made = World(replace(session, data=built_root()), tmp_path / "root")
    hosts.answer, hosts.down = made.answer, {"gpu-2"}

    class Opened:
        def __enter__(self) -> Session:
            return made.session

        def __exit__(self, *error: object) -> None:
            pass

    files = SimpleNamespace(sources=(tmp_path / "site.yml",))
    for verb in (health, support_bundle):
        monkeypatch.setattr(verb, "open_session", lambda *_, **__: Opened())
    monkeypatch.setattr(support_bundle, "locate", lambda _: files)
    (tmp_path / "site.yml").write_text("name: acme\n")
    plant(made.root, {})
    return made


def contents(path: Path) -> dict[str, str]:
    with tarfile.open(path) as tar:
        found = {}
        for info in tar:
            file = tar.extractfile(info)
            assert file is not None
            found[info.name.partition("/")[2]] = file.read().decode()
    return found


def canaries(world: World) -> list[str]:
    """Plants one in each place in each shape, and the site's own in each encoding; what must not appear."""
    known = [word() for _ in range(3)]
    secrets = {f"s{n}": Secret(value) for n, value in enumerate(known)}
    world.session = replace(world.session, secrets=secrets, redact=Redactor(known))
    planted = [form(value).split()[1] for value in known for form in KNOWN.values()]
    texts = world.texts
    for place in PLACES:
        lines = []
        for shape in SHAPES.values():
            planted.append(word())
            lines.append(shape(planted[-1]))
            if shape is SHAPES["random line"]:
                planted[-1] = lines[-1]
        lines += [form(value) for value in known for form in KNOWN.values()]
        texts[place] = "\n".join(lines)
    plant(world.root, texts)
    folder = world.session.folder
    (folder / "site.yml").write_text(f"name: acme\n# {texts['site.yml']}\n")
    run = world.session.runs / "2026-11-30T00-00-00"
    run.mkdir(parents=True)
    for name in ("report.json", "report.html"):
        (run / name).write_text(texts[name])
    failed = {"cause": texts["journal"]}
    world.session.journal.append("r0", "host_failed", stage="slurm", host="gpu-1", **failed)
    return planted


@pytest.fixture
def _reports(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    """The last report, whose content a test writes."""
    folder = world.session.runs / "2026-11-30T00-00-00"
    monkeypatch.setattr(reports, "load", lambda _: SimpleNamespace(folder=folder))


def leaked(world: World, hosts: FakeHosts, output: Path) -> tuple[set[str], set[str]]:
    """Where the archive has one of more than 200 canaries; and its files."""
    planted = canaries(world)
    assert len(set(planted)) > 200
    silence = world.texts["silence"]
    run = hosts.run

    def refused(host: str, argv: Sequence[str], **more: Any) -> Completed:
        if host == "gpu-2":
            return Completed(tuple(argv), 1, "", silence.replace("\n", " "))
        return run(host, argv, **more)

    hosts.down.clear()
    world.session = replace(world.session, remote=SimpleNamespace(run=refused, leave=hosts.leave))
    world.make(output)
    files = contents(output)
    whole = "\n".join([*files, *files.values()])
    at = [(canary, whole.find(canary)) for canary in planted]
    found = {whole[max(0, start - 60) : start + len(canary)] for canary, start in at if start >= 0}
    return found, set(files)


@pytest.mark.usefixtures("_reports")
def test_no_secret_is_in_the_archive(world: World, hosts: FakeHosts, tmp_path: Path) -> None:
    found, files = leaked(world, hosts, tmp_path / "a.tar.gz")
    assert found == set()
    planted = ("vendor/nvidia-bug-report.txt", "logs/opensm.0x1.log", "receipts/slurm.json")
    assert {f"hosts/gpu-1/{name}" for name in planted} <= files
    assert {"judge/journal.jsonl", "site/site.yml", "index.md"} <= files


@pytest.mark.usefixtures("_reports")
@pytest.mark.parametrize("off", ["masks", "known"])
def test_without_one_of_the_two_ways_secrets_would_be_in_it(
    off: str, world: World, hosts: FakeHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above would find them."""
    if off == "masks":
        monkeypatch.setattr(shapes, "RULES", ())
        monkeypatch.setattr(shapes, "RULES_OF_HINTS", ())
    else:
        monkeypatch.setattr(Redactor, "__call__", lambda self, text: text)
    assert len(leaked(world, hosts, tmp_path / "a.tar.gz")[0]) > (150 if off == "masks" else 0)


def shown(results: Sequence[CheckResult]) -> list[str]:
    return sorted(json.dumps(r.model_dump(mode="json"), sort_keys=True) for r in results)


def test_a_bundle_is_judged_like_the_site(world: World, tmp_path: Path) -> None:
    world.texts["error"] = "scontrol did not answer within 5 s"
    failed = {"cause": "the package is missing"}
    world.session.journal.append("r0", "host_failed", stage="slurm", host="gpu-1", **failed)
    live = health.look(Target(), Recorder())
    made = world.make(tmp_path / "a.tar.gz")
    again = health.of_bundle(made.path, Recorder())
    assert shown(again.results) == shown(live.results)
    assert (again.verdict, again.hosts, again.site) == (live.verdict, live.hosts, live.site)
    assert made.verdict is live.verdict
    assert again.taken is not None
    assert {r.id for r in again.results} >= {"host.reachable", "stage.slurm"}
    known = health.look(Target(), Recorder()).since
    assert health.of_bundle(world.make(tmp_path / "b.tar.gz").path, Recorder()).since == known


def test_facts_are_in_the_order_of_the_site(world: World, hosts: FakeHosts, tmp_path: Path) -> None:
    """Some checks take the first answer."""
    hosts.down.clear()
    made = {f"{n}": Host.model_validate({**HOST, "name": f"gpu-{n}"}) for n in range(9, 0, -1)}
    world.session = replace(
        world.session,
        site=world.session.site.model_copy(update={"hosts": tuple(made.values())}),
    )
    path = world.make(tmp_path / "a.tar.gz").path
    files = first_files(path, bundled.FOLDER)
    with bundled.opened(path, files, Recorder()) as (_, found, _judged):
        assert list(found.facts) == [f"gpu-{n}" for n in range(9, 0, -1)]


def test_a_bundle_is_judged_for_one_check_and_host(world: World, tmp_path: Path) -> None:
    path = world.make(tmp_path / "a.tar.gz").path
    seen = health.of_bundle(path, Recorder(), ("slurm",), ("gpu-1",))
    assert {r.host for r in seen.results} == {"gpu-1"}


def test_a_silent_host_is_named_and_the_rest_is_bundled(world: World, tmp_path: Path) -> None:
    made = world.make(tmp_path / "a.tar.gz")
    silent = next(part for part in made.hosts if part.host == "gpu-2")
    assert (silent.cause, made.is_whole) == ("it does not answer", False)
    page = contents(made.path)["index.md"]
    assert "Not read: it does not answer" in page
    assert "`gpu/nvidia-smi.txt`: nvidia-smi: not installed" in page


def test_only_the_named_hosts_are_read(world: World, tmp_path: Path) -> None:
    made = world.make(tmp_path / "a.tar.gz", "gpu-1")
    assert [part.host for part in made.hosts] == ["gpu-1"]
    assert made.is_whole


@pytest.mark.parametrize(
    "line",
    [
        {"name": "../../etc/passwd", "size": 1, "text": ""},
        {"name": "a/../b", "size": 1, "text": ""},
        {"name": "/etc/passwd", "size": 1, "text": ""},
        {"name": "a\x1b[2J", "size": 1, "text": ""},
        {"name": "a", "size": -1, "text": ""},
        {"name": "a", "size": 1, "text": "not base64!"},
        {"name": "a", "size": 1, "text": "eJw="},
        {"no": "name"},
        [],
    ],
)
def test_a_host_cannot_choose_names_or_break_the_bundle(
    line: object, world: World, hosts: FakeHosts, tmp_path: Path
) -> None:
    known = world.answer

    def answer(host: str, argv: Sequence[str]) -> Completed:
        done = known(host, argv)
        is_ours = "appliance.support.collect" in argv[-1]
        return replace(done, stdout=json.dumps(line)) if is_ours and host == "gpu-1" else done

    hosts.answer = answer
    names = contents(world.make(tmp_path / "a.tar.gz").path)
    assert not [name for name in names if name.startswith("hosts/gpu-1/") or ".." in name]
    assert [name for name in names if name.startswith("hosts/head/")]


def test_only_a_control_host_chooses_whose_pods_logs_are_read() -> None:
    def reported(name: str, namespace: str) -> HostFacts:
        release = HelmRelease(name="kai", namespace=namespace, revision=1, status="deployed")
        return facts_of(name, scheduler=SchedulerFacts(releases=(release,)))

    facts = {"gpu-1": reported("gpu-1", "kai-vision"), "head": reported("head", "kai-scheduler")}
    assert support_bundle._release_namespaces(["head"], Round(facts, {})) == {"kai-scheduler"}


def test_a_host_cannot_fill_the_disk(
    world: World, hosts: FakeHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(support_bundle, "ROOM", 100)
    plant(world.root, {"program journalctl": "x" * 1000, "program dmesg": "small"})
    names = contents(world.make(tmp_path / "a.tar.gz").path)
    assert "hosts/gpu-1/journal/units.log" not in names
    assert names["hosts/gpu-1/kernel/dmesg.txt"] == "small"


def damaged(path: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """The bundle with other files."""
    files = {f"t/{name}": text.encode() for name, text in contents(path).items()}
    change(files)
    other = path.with_name("other.tar.gz")
    with tarfile.open(other, "w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return other


ENTRY = {"seq": 1, "time": "2026-11-01T00:00:00+00:00", "run": "r", "stage": "", "host": "gpu-1"}
CHANGES: dict[str, Callable[[dict[str, bytes]], object]] = {
    "no site": lambda f: f.pop("t/judge/site.json"),
    "no journal": lambda f: f.pop("t/judge/journal.jsonl"),
    "no facts": lambda f: f.pop("t/judge/facts/gpu-1.json"),
    "no JSON": lambda f: f.update({"t/judge/site.json": b"{"}),
    "nested": lambda f: f.update({"t/judge/site.json": b"[" * 100_000}),
    "not UTF-8": lambda f: f.update({"t/judge/site.json": b"\xff"}),
    "a list": lambda f: f.update({"t/judge/facts/gpu-1.json": b"[]"}),
    "long": lambda f: f.update({"t/judge/facts/gpu-1.json": b" " * (5 << 20)}),
    "an entry": lambda f: f.update({"t/judge/journal.jsonl": b'{"seq": "x"}'}),
    "an entry twice": lambda f: f.update(
        {
            "t/judge/journal.jsonl": f"{json.dumps({**ENTRY, 'kind': 'x', 'data': {}})}\n".encode()
            * 2
        }
    ),
    "a result without fields": lambda f: f.update(
        {"t/judge/journal.jsonl": json.dumps({**ENTRY, "kind": "health", "data": {}}).encode()}
    ),
    "a class": lambda f: f.update(
        {
            "t/judge/site.json": json.dumps(
                {**json.loads(f["t/judge/site.json"]), "class_of": {"gpu-1": "none"}}
            ).encode()
        }
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_bundle_of_an_attacker_is_refused_in_one_line(
    change: Callable[[dict[str, bytes]], None], world: World, tmp_path: Path
) -> None:
    path = damaged(world.make(tmp_path / "a.tar.gz").path, change)
    with pytest.raises(ConfigError) as refused:
        health.of_bundle(path, Recorder())
    assert refused.value.exit_code == 2
    assert "\n" not in refused.value.message
    assert refused.value.message.isprintable()
