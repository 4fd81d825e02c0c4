"""The table of faults, and what it refuses before anything happens."""

import pytest

from appliance.errors import ApplianceError, ConfigError
from appliance.lab import faults
from appliance.lab.spec import RackSpec, numbered

RACK = numbered(RackSpec(hosts=2), 1, {})
GPU = RACK.host("gpu-1")


def test_every_kind_stands_once() -> None:
    kinds = [fault.kind for fault in faults.FAULTS]
    assert len(kinds) == len(set(kinds))


def test_required_arguments_are_written_in_the_help() -> None:
    assert all(len(f.arguments.split()) >= f.required for f in faults.FAULTS)


def test_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        faults.apply(RACK, GPU, "meteor")
    assert "power-off" in caught.value.hint


def test_port_fault_needs_a_device() -> None:
    with pytest.raises(ConfigError, match="DEVICE"):
        faults.apply(RACK, GPU, "port-down")


def test_port_fault_names_the_ports_a_host_has() -> None:
    with pytest.raises(ApplianceError) as caught:
        faults.apply(RACK, RACK.host("head"), "port-down", ("mlx5_5",))
    assert caught.value.hint == "it has mlx5_0"


def test_count_of_errors_is_a_number() -> None:
    with pytest.raises(ConfigError, match="many"):
        faults.apply(RACK, GPU, "port-errors", ("mlx5_5", "many"))
