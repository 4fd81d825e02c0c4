"""Words that differ in the host they name alone."""

import pytest

from appliance.report.merged_hosts import of_hosts, without_host

FIX = "appliance plan --hosts gpu-1 shows all"


def test_words_of_two_hosts_are_the_same_without_their_names() -> None:
    assert without_host(FIX, "gpu-1") == without_host(FIX.replace("gpu-1", "gpu-2"), "gpu-2")


@pytest.mark.parametrize("text", ["reboot gpu-10", "gpu-1-ib is down", "of rack.gpu-1", "nothing"])
def test_another_name_that_holds_the_hosts_is_left_alone(text: str) -> None:
    assert without_host(text, "gpu-1") == of_hosts(text, "gpu-1", ["gpu-1", "gpu-2"]) == text


def test_a_remedy_names_all_hosts_as_an_option_takes_them() -> None:
    said = of_hosts(FIX, "gpu-1", ["head", "gpu-1", "gpu-2", "gpu-3"])
    assert said == "appliance plan --hosts head,gpu-[1-3] shows all"


def test_a_name_is_no_pattern_and_no_template() -> None:
    assert of_hosts("look at a.b", "a.b", [r"\x", "c"]) == r"look at \x,c"
    assert without_host("look at aXb", "a.b") == "look at aXb"
