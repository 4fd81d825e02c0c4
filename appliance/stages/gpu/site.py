"""The site's section ``gpu``, and where NVIDIA's packages come from."""

from typing import Literal

from pydantic import Field

from appliance.models.base import Model
from appliance.models.texts import Fingerprint, KeyFile, MirrorUrl


class GpuRepository(Model):
    """Where the NVIDIA driver and what goes with it come from."""

    source: Literal["nvidia", "distribution"] = Field(
        default="nvidia", description="NVIDIA's repository, or the distribution's own packages"
    )
    mirror: MirrorUrl | None = Field(
        default=None,
        description="Mirror of NVIDIA's repository for the hosts' system; none: NVIDIA's own",
    )
    key: KeyFile | None = Field(
        default=None, description="File of the signing key in the mirror; none: NVIDIA's own"
    )
    fingerprint: Fingerprint | None = Field(
        default=None, description="Of the signing key, 40 hexadecimal digits; none: NVIDIA's own"
    )
    kernel_modules: Literal["automatic", "open", "proprietary"] = Field(
        default="automatic", description="Automatic: by GPU generation and driver branch"
    )


class GpuOptions(Model):
    """Stages that free a host of work before they change it: another driver, the next Kubernetes."""

    drain_minutes: int = Field(
        default=30, ge=0, le=10080, description="How long running jobs and pods are waited for"
    )
    interrupt_jobs: bool = Field(
        default=False, description="Consent to end jobs and pods that run longer"
    )
    at_once: int = Field(
        default=1, ge=1, le=1000, description="Hosts of one owner that are changed at a time"
    )
