"""The way out of a network of ours: this machine forwards while anybody needs it, and is left as it was."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from appliance.lab import network
from appliance.lab.spec import TABLES
from tests.unit.lab.test_host_files import RACK


class Machine:
    """A machine that knows its tables, and whether it forwards."""

    def __init__(self, folder: Path, forwards: str) -> None:
        self.forwarding, self.before = folder / "ip_forward", folder / "lab/.ip_forward"
        self.forwarding.write_text(forwards)
        self.tables: list[str] = ["filter"]

    def run(self, words: tuple[str, ...], *, input: str = "", check: bool = True) -> object:
        if words == ("nft", "-f", "-"):
            self.tables.append(input.split()[2])
        elif "delete" in words:
            self.tables.remove(words[-1])
        told = {"nftables": [{"metainfo": {}}, *({"table": {"name": t}} for t in self.tables)]}
        return SimpleNamespace(stdout=json.dumps(told))

    @property
    def forwards(self) -> str:
        return self.forwarding.read_text()


@pytest.fixture(params=["0", "1"])
def machine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:  # fmt: skip
    made = Machine(tmp_path, request.param)
    monkeypatch.setattr(network, "run", made.run)
    monkeypatch.setattr(network, "FORWARDING", made.forwarding)
    monkeypatch.setattr(network, "FORWARDING_BEFORE", made.before)
    return made


def test_forwarding_returns_with_the_last_network_to_what_it_was(machine: Machine) -> None:
    before = machine.forwards
    for name in ("one", "two"):
        network.let_out(TABLES + name, RACK.network)
        assert machine.forwards == "1"
    network.shut_in(f"{TABLES}one")
    assert machine.forwards == "1"
    network.shut_in(f"{TABLES}two")
    assert machine.forwards == before
    assert machine.tables == ["filter"]
    assert not machine.before.exists()
