"""The site's section ``gpu``, and the source of NVIDIA's packages."""

from typing import Literal

from pydantic import Field

from appliance.models.base import Model
from appliance.models.text_types import Fingerprint, KeyFile, MirrorUrl


class GpuRepository(Model):
    """The source of the NVIDIA driver and its packages."""

    source: Literal["nvidia", "distribution"] = Field(
        default="nvidia", description="NVIDIA's repository, or the distribution's own packages"
    )
    mirror: MirrorUrl | None = Field(
        default=None,
        description="Mirror of NVIDIA's repository for the hosts' system; default: NVIDIA's own",
    )
    key: KeyFile | None = Field(
        default=None, description="File of the signing key in the mirror; default: NVIDIA's own"
    )
    fingerprint: Fingerprint | None = Field(
        default=None,
        description="Fingerprint of the signing key, 40 hexadecimal digits; default: NVIDIA's own",
    )
    kernel_modules: Literal["automatic", "open", "proprietary"] = Field(
        default="automatic", description="automatic: by GPU generation and driver branch"
    )


class GpuOptions(Model):
    """Stages that drain a host before they change it: a new driver, a Kubernetes upgrade."""

    drain_minutes: int = Field(
        default=30, ge=0, le=10080, description="Time to wait for running jobs and pods"
    )
    interrupt_jobs: bool = Field(default=False, description="End jobs and pods that run longer")
    at_once: int = Field(
        default=1, ge=1, le=1000, description="Number of hosts per owner that are changed at a time"
    )
