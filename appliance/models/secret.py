"""Where a secret of the site is kept."""

from typing import Self

from pydantic import ConfigDict, Field, model_validator

from appliance.models.base import Model
from appliance.models.text_types import File

VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"


class SecretRef(Model):
    """Where a secret is kept; exactly one key. Paths are relative to the site's folder."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [key]} for key in ("file", "env", "vault")]}
    )

    file: File | None = Field(default=None, description="File of mode 0600 or 0400")
    env: str | None = Field(default=None, pattern=VARIABLE, description="Environment variable")
    vault: File | None = Field(default=None, description="ansible-vault file, as path#key")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(v is not None for v in (self.file, self.env, self.vault)) != 1:
            raise ValueError(
                "does not have exactly one place: give exactly one of file, env, vault"
            )
        return self
