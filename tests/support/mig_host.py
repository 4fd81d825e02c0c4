"""Mig host, as several test modules use it."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from appliance.adapters.process import Completed, run
from appliance.lab import nvml as lab_nvml
from appliance.lab.hardware import Hardware
from appliance.lab.recipe import LIB_FOLDER
from appliance.mig import bundle
from appliance.probe import nvml


class MigHost:
    """Its files lie in a folder; ``run`` is what is gone after a reboot."""

    def __init__(self, layer: Path, folder: Path, hardware: Hardware) -> None:
        self.library = layer / LIB_FOLDER / lab_nvml.SONAME
        self.smi_program = layer / lab_nvml.TOOL
        self.run = folder / "run"
        self.run.mkdir(parents=True)
        self.program = folder / "appliance-mig"
        self.program.write_bytes(bundle.executable())
        self.state = lab_nvml.healthy_state("gpu-1", hardware)
        self.file = folder / "gpu.state"
        self.write()
        self.env = {
            "LD_LIBRARY_PATH": str(self.library.parent),
            "APPLIANCE_LAB_GPU_STATE": str(self.file),
            "APPLIANCE_LAB_GPU_RUN": str(self.run),
            "APPLIANCE_MIG_RUN": str(self.run),
        }

    def write(self) -> None:
        self.file.write_text(lab_nvml.render(self.state))

    def mig(self, *arguments: str) -> Completed:
        return run(
            (sys.executable, "-ISB", str(self.program), *arguments), env=self.env, check=False
        )

    def smi(self, *arguments: str) -> Completed:
        argv = (sys.executable, "-ISB", str(self.smi_program), *arguments)
        return run(argv, env=self.env, check=False)

    def use(self, gpu: int, *rest: str, pid: int | None = None) -> None:
        """A process of this number, this one by default, computes on a GPU."""
        with (self.run / "gpu.processes").open("a") as file:
            file.write(" ".join((str(gpu), str(pid or os.getpid()), *rest)) + "\n")

    def leave(self) -> None:
        """Nobody computes any more."""
        (self.run / "gpu.processes").unlink()

    def reboot(self) -> None:
        """What lay in memory is gone."""
        shutil.rmtree(self.run)
        self.run.mkdir()


@pytest.fixture(scope="session")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc to build the rack's NVML library")
    return lab_nvml.build(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def host(layer: Path, tmp_path: Path) -> MigHost:
    return MigHost(layer, tmp_path, Hardware("a100-sxm", 2))


@contextmanager
def opened(host: MigHost) -> Iterator[nvml.Library]:
    """The host's library in this very process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nvml, "LIBRARY", str(host.library))
        for name, value in host.env.items():
            patch.setenv(name, value)
        library = nvml.Library()
        try:
            yield library
        finally:
            library.close()
