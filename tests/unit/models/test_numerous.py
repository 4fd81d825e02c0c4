"""Models of which there are very many weigh no more than what they say."""

import sys
from pathlib import Path

from appliance.checks.check import passed
from appliance.models.base import Numerous, named, slim
from appliance.models.result import CheckResult, Kind, Status
from tests.facts import facts_of


def test_one_set_serves_all_and_a_copy_has_its_own() -> None:
    one, other = facts_of("gpu-1"), facts_of("gpu-2")
    assert one.model_fields_set is other.os.model_fields_set
    copy = one.model_copy(update={"host": "gpu-3"})
    assert (one.host, copy.host) == ("gpu-1", "gpu-3")
    assert one.model_fields_set == set()
    assert copy.model_fields_set is not one.model_fields_set


def test_what_was_said_is_read_back_whole() -> None:
    one = facts_of("gpu-1")
    assert type(one).model_validate(one.model_dump(mode="json")) == one
    result = CheckResult(id="base.os", target="gpu-1", status=Status.PASS)
    assert CheckResult.model_validate_json(result.model_dump_json()) == result


def test_nobody_asks_such_a_model_what_was_given() -> None:
    """It would not know. Site and answers of hosts' own programs are no such models."""
    asks = ("model_fields_set", "exclude_unset")
    for file in (Path(__file__).parents[3] / "appliance").rglob("*.py"):
        text = file.read_text()
        if any(word in text for word in asks):
            assert Numerous.__name__ not in text, file


def test_hosts_that_say_the_same_hold_one_text() -> None:
    state = "act" + "".join(["i", "ve"])
    one, other = (facts_of(host, units={"a": {"load": "", "active": state}}) for host in "xy")
    assert one.units["a"].active is other.units["a"].active


def test_hosts_that_say_the_same_hold_one_unit_and_one_set_of_digests() -> None:
    receipt = {"stage": "base", "fingerprint": "1", "written": "", "run": "", "appliance": "1"}
    said = {
        "units": {"ssh.service": {"load": "loaded", "active": "active"}},
        "receipts": {"base": receipt | {"resources": 1, "inputs": {"role base": "d1"}}},
    }
    one, other = (facts_of(host, **said) for host in "xy")
    unlike = facts_of("z", units={"ssh.service": {"load": "loaded", "active": "failed"}})
    assert one.units["ssh.service"] is other.units["ssh.service"]
    assert one.receipts["base"].inputs is other.receipts["base"].inputs
    assert unlike.units["ssh.service"].active == "failed"
    assert next(iter(one.units)) is next(iter(other.units))


def test_results_of_hosts_hold_the_names_of_their_values_once() -> None:
    own = passed("gpu-1", 1.5, evidence="x").of("base.os")
    alone = CheckResult(
        id="base.os",
        target="gpu-1",
        host="gpu-1",
        status=Status.PASS,
        value=1.5,
        evidence="x",
    )
    assert own == alone
    assert own.model_dump() == alone.model_dump()
    assert passed("gpu-2", 1.5, evidence="x").of("base.os").host == "gpu-2"
    assert own.host == "gpu-1"


def test_many_of_a_class_hold_the_names_of_their_values_once() -> None:
    class Fresh(CheckResult):
        """Python shares names by class, as the first object of it was made."""

    given = {"id": "base.os", "target": "gpu-1", "host": "gpu-1", "status": Status.PASS}
    copy = slim(Fresh.model_validate(given)).at("gpu-2")
    alone = Fresh.model_validate({**given, "target": "gpu-2", "host": "gpu-2"})
    assert copy == alone
    assert sys.getsizeof(copy.__dict__) < 0.7 * sys.getsizeof(alone.__dict__)


def test_a_place_of_another_kind_of_text_is_a_text() -> None:
    assert type(passed(Kind.WAITS).of("base.os").host) is str


def test_dictionaries_of_the_same_names_hold_them_once() -> None:
    names = [f"counter_{n}" for n in range(29)]
    one, other = named(dict.fromkeys(names, 1)), named(dict.fromkeys(names, 2))
    assert one == dict.fromkeys(names, 1)
    assert other == dict.fromkeys(names, 2)
    assert list(one) == names
    assert sys.getsizeof(one) < 0.5 * sys.getsizeof(dict.fromkeys(names, 1))
