"""A fault of memory, PCIe or a drive, planted in a rack host's tree: read by the probe, told by its check, drained where its row says so."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.checks.check import View
from appliance.errors import ApplianceError, ConfigError
from appliance.lab import board, faults, seed, spec
from appliance.lab.fault import Fault
from appliance.lab.spec import Rack, RackHost, RackSpec, numbered
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Status
from appliance.probe.__main__ import answer
from appliance.watch import rules
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of
from tests.support.watch_expects import EXPECTS

FAULTS = [f for f in faults.FAULTS if f.kind.startswith(("edac", "aer", "nvme"))]
MARK = "etc/appliance/simulated.json"
CHECKS = ("base.memory_errors", "base.pcie_errors", "base.nvme")
each_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.kind)


@pytest.fixture
def rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rack:
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    made = numbered(RackSpec("nowhere", hosts=2), 1, {})
    host = made.host("gpu-1")
    host.root.mkdir(parents=True)
    seed.hardware(host.root, made, host)
    for name, text in seed.marks(made, host).items():
        (host.root / name).parent.mkdir(parents=True, exist_ok=True)
        (host.root / name).write_text(text)
    (host.root / "etc/os-release").write_text("ID=debian\nVERSION_ID=12\n")
    (host.root / "proc/self").mkdir(parents=True, exist_ok=True)
    (host.root / "proc/self/mountinfo").write_text("1 0 0:1 / / rw - overlay overlay rw\n")
    (host.root / "run/systemd").mkdir(parents=True)
    (host.root / "run/systemd/container").write_text("systemd-nspawn\n")
    return made


@pytest.fixture
def host(rack: Rack) -> RackHost:
    return rack.host("gpu-1")


def read(host: RackHost, minute: int = 0) -> HostFacts:
    said = answer(b'{"areas": ["edac", "aer", "nvme"]}', str(host.root))
    taken = f"2026-11-26T12:{minute:02}:00Z"
    return HostFacts.model_validate_json(json.dumps({**said, "taken": taken}))


def judged(now: HostFacts, before: HostFacts) -> list[CheckResult]:
    view = View(profile_of(), site_of("head", "gpu-1"), {"gpu-1": now})
    seen = replace(view, before={"gpu-1": before})
    return [result for check in CHECKS for result in said_by(check, seen, "gpu-1")]


def unfit(facts: HostFacts) -> list[str]:
    said = facts.model_dump(mode="json")
    # What else this tree lacks is not asked for here.
    board_only = {name: said[name] for name in ("memory_errors", "pcie_errors", "nvme")}
    hardware = {**EXPECTS, "gpus": 0, "ports": 0, "mounts": [], "scratch": "", "devices": []}
    return [cause.check for cause in rules.causes(board_only, hardware)]


def test_there_are_faults_of_each_kind() -> None:
    assert {fault.check for fault in FAULTS} == set(CHECKS)
    assert {fault.check for fault in FAULTS if fault.drains} == set(CHECKS)


def test_a_sound_rack_host_passes_and_is_called_simulated(host: RackHost) -> None:
    results = judged(read(host, 5), read(host))
    assert [(r.id, r.status) for r in results] == [(check, Status.PASS) for check in CHECKS]
    assert all(r.simulated for r in results)
    assert unfit(read(host)) == []


@each_fault
def test_a_fault_is_one_finding_in_the_words_of_its_row(
    rack: Rack, host: RackHost, fault: Fault
) -> None:
    before = read(host)
    faults.apply(rack, host, fault.kind, fault.example)
    now = read(host, 5)
    (told,) = (r for r in judged(now, before) if r.status is not Status.PASS)
    assert told.status in {Status.FAIL, Status.WARN}
    assert (told.id, told.target) == (fault.check, fault.target.replace("HOST", "gpu-1"))
    assert re.fullmatch(".*".join(map(re.escape, fault.says.split("*"))), told.cause), told.cause
    assert told.fix
    assert "{" not in told.fix
    assert unfit(now) == [fault.check] * fault.drains


@each_fault
def test_a_fault_is_cleared_without_a_trace(rack: Rack, host: RackHost, fault: Fault) -> None:
    def tree() -> dict[str, bytes]:
        known = (path for path in host.root.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in known}

    whole = tree()
    faults.apply(rack, host, fault.kind, fault.example)
    assert tree() != whole
    faults.apply(rack, host, fault.kind, fault.example, clear=True)
    assert tree() == whole
    results = judged(read(host, 5), read(host))
    assert {r.status for r in results} == {Status.PASS}


def test_faults_of_a_module_add_up_and_go_one_by_one(rack: Rack, host: RackHost) -> None:
    module = board.module_label(1, 3)
    faults.apply(rack, host, "edac-corrected", (module, "40"))
    faults.apply(rack, host, "edac-uncorrected", (module, "3"))
    found = read(host).memory_errors
    assert found is not None
    assert [(m.label, m.corrected, m.uncorrected) for m in found.modules] == [(module, 40, 3)]
    faults.apply(rack, host, "edac-uncorrected", (module,), clear=True)
    found = read(host).memory_errors
    assert found is not None
    assert (found.corrected, found.uncorrected) == (40, 0)


def test_a_module_a_drive_or_an_adapter_that_is_not_there_is_refused(
    rack: Rack, host: RackHost
) -> None:
    for kind, name in (("edac-corrected", "A1"), ("nvme-worn", "nvme9"), ("aer-corrected", "x")):
        with pytest.raises(ApplianceError, match=f"has no .*{name}"):
            faults.apply(rack, host, kind, (name,))
    with pytest.raises(ConfigError, match="is not a count"):
        faults.apply(rack, host, "edac-corrected", (board.module_label(0, 0), "many"))


def test_who_shows_no_hardware_of_its_own_is_not_judged(host: RackHost) -> None:
    (host.root / MARK).unlink()
    found = read(host)
    seen = found.model_copy(update={"os": found.os.model_copy(update={"container": "x"})})
    results = judged(seen, seen)
    assert {(r.status, r.required) for r in results} == {(Status.NOT_ASSESSED, False)}
    assert {r.cause for r in results} == {"container host shares its machine's hardware"}
