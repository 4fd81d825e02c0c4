"""The base of every model: frozen, and closed to unknown keys."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Frozen data; a key nobody declared is an error, never silently dropped."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
