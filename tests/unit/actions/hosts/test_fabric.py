"""What is said where no control host could discover the fabric."""

from appliance.actions.hosts.fabric import undiscovered
from appliance.engine.look.gather import Round, Unanswered
from tests.support.facts import facts_of

SILENT = Unanswered("head", "10.0.0.1 does not answer", "power the host on")


def test_a_silent_control_host_is_to_be_seen_to_first() -> None:
    error = undiscovered(["head"], Round({}, {"head": SILENT}))
    assert error.message == "the fabric could not be discovered: head: 10.0.0.1 does not answer"
    assert error.hint == "power the host on"


def test_a_control_host_without_the_tool_gets_it_with_its_stage() -> None:
    other = facts_of("head-2", errors={"topology": "ibnetdiscover: not installed"})
    error = undiscovered(["head", "head-2"], Round({"head-2": other}, {"head": SILENT}))
    assert error.message.endswith("does not answer; head-2: ibnetdiscover: not installed")
    assert "appliance deploy --until fabric" in error.hint
