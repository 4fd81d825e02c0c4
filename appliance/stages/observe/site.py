"""The site's section ``observe``."""

from ipaddress import IPv4Network
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from appliance.models.base import Model
from appliance.models.secret import SecretRef
from appliance.models.texts import Few, HostName, Line, Server

MAIL_ADDRESS = r"^[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$"

WORDS = {MAIL_ADDRESS: ("a mail address", "as oncall@example.com")}

MailAddress = Annotated[str, Field(pattern=MAIL_ADDRESS)]


class Receiver(Model):
    """Who is told of alerts, in one way."""

    name: HostName = Field(description="As messages and `appliance validate alerts` call them")
    email: MailAddress | None = Field(default=None, description="Address to mail to")
    webhook: SecretRef | None = Field(
        default=None, description="Where the address is kept that alerts are posted to as JSON"
    )
    slack: SecretRef | None = Field(
        default=None,
        description="Where the address is kept of an incoming webhook of Slack or Mattermost",
    )
    severity: Literal["warning", "critical"] = Field(
        default="warning", description="Least severity they are told; warning: all"
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(v is not None for v in (self.email, self.webhook, self.slack)) != 1:
            raise ValueError("names no single way: give exactly one of email, webhook, slack")
        return self

    @property
    def address(self) -> SecretRef | None:
        """Where the address of a webhook is kept: who knows it can post."""
        return self.webhook or self.slack


class Mail(Model):
    """The server that mails are handed to."""

    server: Server = Field(description="Name or address")
    port: int = Field(default=587, ge=1, le=65535, description="Port of SMTP")
    sender: MailAddress = Field(description="Address that mails come from")
    user: Line | None = Field(default=None, description="Account to log in with; none: no login")
    password: SecretRef | None = Field(default=None, description="Where its password is kept")
    tls: bool = Field(
        default=True, description="Hand nothing over without STARTTLS and a certificate that holds"
    )

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password go together: give both or neither")
        return self


class ObserveOptions(Model):
    """Stage observe. Retention in days."""

    retention_days: int = Field(
        default=30, ge=1, le=3650, description="How long measurements are kept"
    )
    receivers: Few[Receiver] = Field(
        default=(), description="Who is told of alerts; none: they are seen in health alone"
    )
    open_to: Few[IPv4Network] = Field(
        default=(),
        description="Addresses of other machines, as 10.0.9.5/32, that may read Prometheus and the exporters without a login: "
        "another monitoring, a Grafana; no host of the site",
    )
    mail: Mail | None = Field(default=None, description="For receivers with `email`")
