"""The state the simulated NVML reads."""

import re
from pathlib import Path

from appliance.lab import nvml


def test_state_survives_writing_and_reading() -> None:
    state = nvml.healthy_state("gpu-1")
    read = nvml.parse(nvml.render(state))
    assert read == {
        section: {key: str(value) for key, value in values.items()}
        for section, values in state.items()
    }


def test_every_key_is_known_to_the_library() -> None:
    source = (nvml.SOURCES / "state.c").read_text()
    known = set(re.findall(r"(?:WORD|NUMBER)\((?:gpu|state), (\w+)\)", source))
    state = nvml.healthy_state("gpu-1")
    given = {key.rstrip("0123456789") for key in (*state["system"], *state["gpu0"])}
    assert given - known == set(re.findall(r'strncmp\(key, "(\w+)"', source)) == {"mig_profile"}
    assert known <= given


def test_no_two_gpus_of_a_rack_are_alike() -> None:
    states = [nvml.healthy_state(name) for name in ("gpu-1", "gpu-2")]
    uuids = {state[f"gpu{index}"]["uuid"] for state in states for index in range(8)}
    serials = {state[f"gpu{index}"]["serial"] for state in states for index in range(8)}
    assert len(uuids) == len(serials) == 16
    assert all(
        re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", str(u)) for u in uuids
    )


def test_a_host_has_the_same_gpus_after_it_was_made_anew() -> None:
    assert nvml.healthy_state("gpu-1") == nvml.healthy_state("gpu-1")


def test_written_state_replaces_the_old_one_at_once(tmp_path: Path) -> None:
    nvml.write(tmp_path, nvml.healthy_state("gpu-1"))
    nvml.write(tmp_path, {"system": {"count": 7}})
    assert (tmp_path / nvml.STATE_FILE).read_text() == "system.count=7\n"
    assert len(list((tmp_path / nvml.STATE_FILE).parent.iterdir())) == 1
