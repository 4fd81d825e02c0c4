"""The site's section ``observe``."""

from ipaddress import IPv4Network
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from appliance.models.base import Model
from appliance.models.secret import SecretRef
from appliance.models.text_types import Few, HostName, Line, Server

MAIL_ADDRESS = r"^[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$"

WORDS = {MAIL_ADDRESS: ("a mail address", "such as oncall@example.com")}

MailAddress = Annotated[str, Field(pattern=MAIL_ADDRESS)]


class Receiver(Model):
    """A receiver of alerts."""

    name: HostName = Field(description="Name in messages and in `appliance validate alerts`")
    email: MailAddress | None = Field(default=None, description="Email address")
    webhook: SecretRef | None = Field(
        default=None, description="Where the URL is kept that receives alerts as JSON"
    )
    slack: SecretRef | None = Field(
        default=None,
        description="Where the URL of an incoming webhook of Slack or Mattermost is kept",
    )
    severity: Literal["warning", "critical"] = Field(
        default="warning", description="Minimum severity; warning: all alerts"
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(v is not None for v in (self.email, self.webhook, self.slack)) != 1:
            raise ValueError(
                "does not have exactly one address: give exactly one of email, webhook, slack"
            )
        return self

    @property
    def address(self) -> SecretRef | None:
        """Where a webhook's URL is stored; it is a secret, because anyone who knows it can post."""
        return self.webhook or self.slack


class Mail(Model):
    """The mail server."""

    server: Server = Field(description="Name or address")
    port: int = Field(default=587, ge=1, le=65535, description="Port of SMTP")
    sender: MailAddress = Field(description="Sender address of mails")
    user: Line | None = Field(default=None, description="Account for the login; default: no login")
    password: SecretRef | None = Field(default=None, description="Where its password is kept")
    tls: bool = Field(default=True, description="Require STARTTLS with a valid certificate")

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password are required together: give both or neither")
        return self


class ObserveOptions(Model):
    """Stage observe. Retention in days."""

    retention_days: int = Field(default=30, ge=1, le=3650, description="How long metrics are kept")
    receivers: Few[Receiver] = Field(
        default=(), description="Receivers of alerts; default: alerts are shown only by health"
    )
    open_to: Few[IPv4Network] = Field(
        default=(),
        description="Addresses of other machines, such as 10.0.9.5/32, that may read Prometheus and the exporters without a login: "
        "another monitoring system, a Grafana; not a host of the site",
    )
    mail: Mail | None = Field(default=None, description="Mail server for receivers with `email`")
