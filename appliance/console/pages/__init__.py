"""The six pages in the order of their keys."""

from collections.abc import Callable

from appliance.console.page import Page
from appliance.console.pages.deployment import deployment_page
from appliance.console.pages.findings import findings_page
from appliance.console.pages.gates import gates_page
from appliance.console.pages.hosts import hosts_page
from appliance.console.pages.queues import queues_page
from appliance.console.pages.site import site_page
from appliance.console.state import State

PAGES: tuple[tuple[str, Callable[[State], Page]], ...] = (
    ("Site", site_page),
    ("Findings", findings_page),
    ("Hosts", hosts_page),
    ("Queues", queues_page),
    ("Deployment", deployment_page),
    ("Gates", gates_page),
)
"""By number from 1: the word in the line of keys, and the function that makes the page."""
