"""The virtual rack's GPUs, read by the probe and judged: sound parts of every class pass, faults trip their checks."""

import re
import shutil
from pathlib import Path

import pytest

from appliance.adapters.process import run
from appliance.checks.check import HostCheck, View
from appliance.config.load import load_profile
from appliance.lab.gpu_faults import SYMPTOMS, Symptom
from appliance.lab.hardware import of_profile
from appliance.lab.nvml import SOURCES, compile_command, healthy_state, render
from appliance.models.facts import HostFacts
from appliance.models.profile import Profile
from appliance.models.result import CheckResult, Status
from appliance.probe import bundle
from appliance.probe.nvml import LIBRARY
from appliance.stages.catalog import HARDWARE
from tests.support.gpu_facts import ABSENT, facts, site

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="needs gcc to build the rack's NVML library"
)
UNREAD = {"gpu.count", "gpu.xid", "base.pcie_errors"}
"""What the library does not tell: the PCI bus and the kernel log are the rack's own files."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nvml")
    run(compile_command(folder / LIBRARY, sorted(SOURCES.glob("*.c"))))
    return folder


def judged(
    library: Path, profile: Profile, part: str = "", changes: tuple[dict[str, int], ...] = ()
) -> list[CheckResult]:
    """Every host check on a rack host whose GPUs have these changes of state, by their index."""
    state = healthy_state("gpu-1", of_profile(profile, part))
    for index, change in enumerate(changes):
        state[f"gpu{index}"].update(change)
    (library / "gpu.state").write_text(render(state))
    env = {"LD_LIBRARY_PATH": str(library), "APPLIANCE_LAB_GPU_STATE": str(library / "gpu.state")}
    done = run(bundle.command(), input=bundle.payload({"areas": ["gpus"]}), env=env)
    read = HostFacts.model_validate_json(done.stdout)
    units = {"nvidia-fabricmanager.service": ABSENT, "nvidia-persistenced.service": ABSENT}
    seen = facts("gpu-1", simulated=("gpu",), gpus=read.gpus, fabric_manager="", units=units)
    view = View(profile, site(), {"gpu-1": seen})
    checks = [c for c in HARDWARE if isinstance(c, HostCheck) and c.id not in UNREAD]
    return [r for c in checks for r in c.results(view, view.site.host("gpu-1"), seen)]


@pytest.mark.parametrize(
    ("name", "part"),
    [("hpc", ""), ("hpc", "h100-sxm"), ("balanced", ""), ("cost-efficient", "h100-pcie")],
)
def test_a_sound_rack_host_of_every_class_passes(library: Path, name: str, part: str) -> None:
    results = judged(library, load_profile(name), part)
    assert [r for r in results if r.status is not Status.PASS and r.required] == []
    left = {r.id for r in results if r.status is Status.NOT_ASSESSED}
    assert left <= {"gpu.fabric_manager", "gpu.persistence"}
    assert all(r.simulated for r in results)


FAULTS: dict[str, dict[str, int]] = {
    "gpu.error": {"lost": 1},
    "gpu.pcie": {"pcie_width": 8},
    "gpu.nvlink": {"nvlinks_down": 2},
    "gpu.ecc": {"ecc_uncorrected_volatile": 2},
    "gpu.remap": {"remap_failed": 1},
    "gpu.clocks": {"throttle_reasons": 0x48},
    "gpu.temperature": {"temperature": 93},
    "gpu.power": {"power_limit_mw": 250000},
}


def test_what_goes_wrong_in_the_rack_trips_its_check_and_no_other(library: Path) -> None:
    results = judged(library, load_profile("hpc"), changes=tuple(FAULTS.values()))
    found = {(r.id, r.target) for r in results if r.status is Status.FAIL}
    assert found == {(check_id, f"gpu-1/GPU {gpu}") for gpu, check_id in enumerate(FAULTS)}


@pytest.mark.parametrize(
    "symptom", [s for s in SYMPTOMS if s.check not in UNREAD], ids=lambda s: str(s.kind)
)
def test_a_fault_of_the_rack_is_told_in_the_words_its_table_promises(
    symptom: Symptom, library: Path
) -> None:
    state = {name: int(value) for name, value in symptom.state.items()}
    results = judged(library, load_profile("hpc"), changes=({}, {}, {}, state))
    told = [r for r in results if (r.id, r.target) == (symptom.check, "gpu-1/GPU 3")]
    pattern = ".*".join(map(re.escape, symptom.says.split("*")))
    assert [r.status for r in told if re.fullmatch(pattern, r.cause)] in (
        [Status.FAIL],
        [Status.WARN],
    ), told
