"""The site's section ``observe``."""

from pydantic import Field

from appliance.models.base import Model


class ObserveOptions(Model):
    """Stage observe. Retention in days."""

    retention_days: int = Field(
        default=30, ge=1, le=3650, description="How long measurements are kept"
    )
