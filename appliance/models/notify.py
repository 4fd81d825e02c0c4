"""The site's section ``notify``, and the document that its receiver gets."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal

from pydantic import AwareDatetime, Field

from appliance.models.base import Document, Model
from appliance.models.line import Line
from appliance.models.result import Verdict
from appliance.models.secret import SecretRef
from appliance.models.text_types import File


class NotifyOptions(Model):
    """The receiver of events: an HTTPS server of the site's owner."""

    url: SecretRef = Field(description="Where the https URL is kept that receives events as JSON")
    token: SecretRef | None = Field(
        default=None, description="Where the token is kept that is sent as Authorization: Bearer"
    )
    key: SecretRef | None = Field(
        default=None,
        description="Where the key is kept that signs each event (HMAC-SHA256, header X-Appliance-Signature)",
    )
    authority: File | None = Field(
        default=None,
        description="CA certificate of the receiver, relative to the site's folder; default: those that this machine trusts",
    )


class Outcome(StrEnum):
    """How a run ended."""

    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    INTERRUPTED = "interrupted"


def _now() -> datetime:
    return datetime.now(UTC)


class Notification(Document):
    """One event of a site, sent to the receiver of section notify. It contains no text of a host."""

    event: Literal["run_started", "run_ended", "health_changed"]
    time: AwareDatetime = Field(default_factory=_now)
    site: Line
    run: Line = Field(description="Name of the run, as in appliance history")
    verb: Line = Field(description="First word of the command, such as deploy")
    outcome: Outcome | None = Field(default=None, description="Of run_ended")
    verdict: Verdict | None = Field(
        default=None, description="Of health_changed, and of run_ended if the site was judged"
    )
    earlier: Verdict | None = Field(
        default=None, description="Of health_changed: the verdict sent last; null for the first"
    )
