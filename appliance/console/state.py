"""Everything the console has loaded; pages are made from it."""

from dataclasses import dataclass, field
from datetime import datetime

from appliance.actions.sites.last_deployment import SiteRecord
from appliance.console.loaded import Loaded, now
from appliance.console.page import Look
from appliance.console.sources import Looked, Waiting
from appliance.models.plan import Plan


@dataclass
class State:
    """The loads, the time of the picture, and what the terminal can show. ``shows_plan``: page 5 shows the plan."""

    site: str
    look: Loaded[Looked] = field(default_factory=Loaded)
    record: Loaded[SiteRecord] = field(default_factory=Loaded)
    waiting: Loaded[Waiting] = field(default_factory=Loaded)
    plan: Loaded[Plan] = field(default_factory=Loaded)
    terminal: Look = field(default_factory=Look)
    time: datetime = field(default_factory=now)
    shows_plan: bool = False

    @property
    def is_loading(self) -> bool:
        """Whether a load is in progress."""
        return any(one.is_loading for one in (self.look, self.record, self.waiting, self.plan))
