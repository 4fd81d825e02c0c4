"""Hosts as people name them."""

import pytest

from appliance.engine.host_names import expanded_ranges, named_hosts
from appliance.errors import ConfigError
from appliance.report.formatting import fold

SITE = ["head", "gpu-1", "gpu-2", "gpu-3", "gpu-10"]


@pytest.mark.parametrize(
    ("words", "hosts"),
    [
        (["gpu-2"], "gpu-2"),
        (["gpu-3,head"], "head gpu-3"),
        (["gpu-[1-3]"], "gpu-1 gpu-2 gpu-3"),
        (["head, gpu-[1,3]"], "head gpu-1 gpu-3"),
        (["gpu-[2-3],head", "gpu-10", "gpu-2"], "head gpu-2 gpu-3 gpu-10"),
        ([], ""),
    ],
)
def test_hosts_come_once_each_in_the_order_of_the_site(words: list[str], hosts: str) -> None:
    assert " ".join(named_hosts(words, SITE)) == hosts


def test_padded_numbers_keep_their_zeros() -> None:
    assert list(expanded_ranges("n[08-10]")) == ["n08", "n09", "n10"]


@pytest.mark.parametrize(
    "hosts",
    [SITE, ["n01", "n02", "n03", "rack2"], ["a1b", "a2b"], ["x007"], ["n9", "n10", "n11", "m9"]],
)
def test_what_output_shows_can_be_typed_again(hosts: list[str]) -> None:
    assert list(named_hosts([fold(hosts)], hosts)) == hosts


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("gpu-[1-4]", "--hosts gpu-4: no such host"),
        ("gpu-[1-999999999]", "--hosts gpu-4: no such host"),
        ("gpu-[3-1]", r"--hosts gpu-\[3-1\]: no such host"),
        ("gpu-[1,3-2]", r"--hosts gpu-\[1,3-2\]: no such host"),
        ("gpu-1,", "--hosts: no such host"),
        ("", "--hosts: no such host"),
        ("gpu-[1-", r"--hosts gpu-\[1-: no such host"),
        ("gpu-[a]", r"--hosts gpu-\[a\]: no such host"),
    ],
)
def test_a_name_that_is_no_host_is_refused_with_the_hosts_there_are(word: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        named_hosts([word], SITE, flag="--hosts")
    assert refused.value.hint == "hosts: head, gpu-[1-3,10]"
