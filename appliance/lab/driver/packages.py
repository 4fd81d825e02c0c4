"""The look-alike packages of one driver version, and those that go with any."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from appliance.lab import nvml
from appliance.lab.deb import PROGRAM, File, Package
from appliance.lab.hardware import DRIVERS
from appliance.lab.recipe import LIB_FOLDER

KERNEL_MODULES = ("nvidia-kernel-open-dkms", "nvidia-kernel-dkms")
OLDER = {
    "535": "535.230.02",
    "550": "550.144.03",
    "570": "570.133.20",
    "580": "580.82.07",
}
"""A version of each branch before the one in ``DRIVERS``."""

DOCA, OFED = "3.1.0-091000", "25.07-0.9.7"
"""The release of DOCA-OFED in a rack's repository, as in NVIDIA's own, and the version that its kernel module reports."""
TOOLKIT, DCGM, EXPORTER = "1.19.1-1", "1:4.5.3-1", "4.8.2-1"
SIMULATED = "simulated, for the virtual rack only"


@dataclass(frozen=True)
class Driver:
    """A driver version; one that does not load is for trying what happens then."""

    version: str
    loads: bool = True

    @property
    def branch(self) -> str:
        return self.version.split(".")[0]

    @property
    def package_version(self) -> str:
        return f"{self.version}-1"


def drivers_of(branch: str) -> tuple[Driver, ...]:
    """The two versions of a branch a rack's repository carries, the older first."""
    known = branch if branch in DRIVERS else "580"
    return Driver(OLDER[known]), Driver(DRIVERS[known][0])


def every_driver() -> tuple[Driver, ...]:
    """Both versions of every branch."""
    return tuple(driver for branch in DRIVERS for driver in drivers_of(branch))


def of_driver(driver: Driver, layer: Path) -> tuple[Package, ...]:
    """All packages that come in the driver's own version; ``layer`` holds the simulated library and nvidia-smi."""
    version = driver.package_version
    return (
        *(_kernel_module(driver, name) for name in KERNEL_MODULES),
        _user_space(driver, layer),
        Package(
            "nvidia-persistenced",
            version,
            f"NVIDIA persistence daemon ({SIMULATED})",
            _daemon("nvidia-persistenced", "exec sleep infinity\n"),
        ),
        Package(
            "nvidia-fabricmanager",
            version,
            f"NVIDIA fabric manager ({SIMULATED})",
            {
                "usr/bin/nv-fabricmanager": File(
                    _read("nv-fabricmanager").replace("@VERSION@", driver.version), PROGRAM
                ),
                "lib/systemd/system/nvidia-fabricmanager.service": File(
                    _unit("NVIDIA fabric manager", "/usr/bin/nv-fabricmanager")
                ),
            },
        ),
    )


def others(branch: str) -> tuple[Package, ...]:
    """Container toolkit, DCGM and its exporter."""
    cuda = DRIVERS.get(branch, DRIVERS["580"])[1] // 1000
    core = "datacenter-gpu-manager-4-core"
    ctk = _read("nvidia-ctk").replace("@VERSION@", TOOLKIT.partition("-")[0])
    cli = _read("nvidia-container-cli").replace("@VERSION@", TOOLKIT.partition("-")[0])
    return (
        Package(
            "nvidia-container-toolkit",
            TOOLKIT,
            f"NVIDIA container toolkit ({SIMULATED})",
            {
                "usr/bin/nvidia-ctk": File(ctk, PROGRAM),
                "usr/bin/nvidia-container-runtime": File(
                    _read("nvidia-container-runtime"), PROGRAM
                ),
            },
            relations={"Depends": "libnvidia-container-tools"},
        ),
        Package(
            "libnvidia-container-tools",
            TOOLKIT,
            f"NVIDIA container runtime's command line ({SIMULATED})",
            {"usr/bin/nvidia-container-cli": File(cli, PROGRAM)},
        ),
        Package(
            core,
            DCGM,
            f"NVIDIA DCGM ({SIMULATED})",
            {
                "usr/bin/nv-hostengine": File(
                    "#!/bin/sh\n# Simulated: it runs by its name, and does nothing.\nwhile sleep 3600; do :; done\n",
                    PROGRAM,
                ),
                "lib/systemd/system/nvidia-dcgm.service": File(
                    _unit("NVIDIA DCGM", "/usr/bin/nv-hostengine")
                ),
            },
        ),
        Package(
            f"datacenter-gpu-manager-4-cuda{cuda}",
            DCGM,
            f"NVIDIA DCGM for CUDA {cuda} ({SIMULATED})",
            relations={"Depends": f"{core} (= {DCGM})"},
        ),
        Package(
            "datacenter-gpu-manager-exporter",
            EXPORTER,
            f"NVIDIA dcgm-exporter ({SIMULATED})",
            {
                "usr/bin/dcgm-exporter": File(_read("dcgm-exporter"), PROGRAM),
                "lib/systemd/system/nvidia-dcgm-exporter.service": File(
                    _unit("NVIDIA dcgm-exporter", "/usr/bin/dcgm-exporter")
                ),
            },
            relations={"Depends": core},
        ),
    )


def doca() -> tuple[Package, Package]:
    """DOCA-OFED: a package that pulls in a kernel module, which is there from the next boot on."""
    version = f"{OFED.partition('-')[0]}.OFED.{OFED}"
    unit = "lib/systemd/system/appliance-lab-mlx5.service"
    kernel = "mlnx-ofed-kernel-dkms"
    return (
        Package(
            kernel,
            version,
            f"NVIDIA network adapters' kernel modules ({SIMULATED})",
            {
                "usr/lib/doca/version": File(f"{OFED}\n"),
                "usr/bin/ofed_info": File(f"#!/bin/sh\necho OFED-internal-{OFED}:\n", PROGRAM),
                "usr/sbin/ofed_uninstall.sh": File(_read("ofed_uninstall.sh"), PROGRAM),
                unit: File(_read("appliance-lab-mlx5.service")),
            },
            {f"lib/systemd/system/sysinit.target.wants/{Path(unit).name}": f"../{Path(unit).name}"},
        ),
        Package(
            "doca-ofed",
            DOCA,
            f"NVIDIA DOCA-OFED ({SIMULATED})",
            relations={"Depends": f"{kernel} (= {version})"},
        ),
    )


def modprobe() -> str:
    """Substitutes for the kernel's module loader on a host with simulated GPUs."""
    return _read("modprobe")


def _kernel_module(driver: Driver, name: str) -> Package:
    cuda = DRIVERS.get(driver.branch, DRIVERS["580"])[1]
    loaded = nvml.render({"system": nvml.system(driver.version, cuda)})
    others = ", ".join(other for other in KERNEL_MODULES if other != name)
    unit = "lib/systemd/system/appliance-lab-driver.service"
    return Package(
        name,
        driver.package_version,
        f"NVIDIA kernel modules ({SIMULATED})",
        {
            "usr/lib/nvidia/appliance-lab.driver": File(
                loaded if driver.loads else f"broken\n{loaded}"
            ),
            unit: File(_read("appliance-lab-driver.service")),
            "usr/lib/modprobe.d/appliance-lab.conf": File(
                "install nvidia /bin/true\ninstall nvidia_uvm /bin/true\n"
            ),
        },
        {f"lib/systemd/system/sysinit.target.wants/{Path(unit).name}": f"../{Path(unit).name}"},
        {"Conflicts": others, "Provides": "nvidia-kernel-modules"},
    )


def _user_space(driver: Driver, layer: Path) -> Package:
    library = f"libnvidia-ml.so.{driver.version}"
    version = driver.package_version
    either = " | ".join(f"{name} (= {version})" for name in KERNEL_MODULES)
    return Package(
        "nvidia-driver-cuda",
        version,
        f"NVIDIA driver, user space for computing ({SIMULATED})",
        {
            f"{LIB_FOLDER}/{library}": File((layer / LIB_FOLDER / nvml.SONAME).read_bytes()),
            "usr/bin/nvidia-smi": File((layer / nvml.TOOL).read_bytes(), PROGRAM),
        },
        {f"{LIB_FOLDER}/{nvml.SONAME}": library},
        {"Depends": either},
    )


def _daemon(name: str, script: str) -> dict[str, File]:
    program = f"usr/bin/{name}"
    return {
        program: File(f"#!/bin/sh\n# Simulated.\n{script}", PROGRAM),
        f"lib/systemd/system/{name}.service": File(_unit(name, f"/{program}")),
    }


def _unit(title: str, program: str) -> str:
    return (
        f"[Unit]\nDescription={title} (simulated)\n\n[Service]\nType=exec\nExecStart={program}\n\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def _read(name: str) -> str:
    return files("appliance.lab.driver").joinpath(name).read_text(encoding="utf-8")
