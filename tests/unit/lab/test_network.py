"""The way out of a network of ours: this machine's kernel has what racks need while one stands, and is left as it was."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from appliance.lab import kernel, network
from appliance.lab.spec import TABLES
from tests.support.lab_rack import RACK

FORWARD, WATCHERS = "net/ipv4/ip_forward", "fs/inotify/max_user_instances"


class Machine:
    """A machine that knows its tables, whether it forwards, and how many may watch files."""

    def __init__(self, folder: Path, forwards: str, watchers: str) -> None:
        self.settings = folder / "sys"
        for name, value in ((FORWARD, forwards), (WATCHERS, watchers)):
            (self.settings / name).parent.mkdir(parents=True)
            (self.settings / name).write_text(f"{value}\n")
        self.tables: list[str] = ["filter"]

    def run(self, words: tuple[str, ...], *, input: str = "", check: bool = True) -> object:
        if words == ("nft", "-f", "-"):
            self.tables.append(input.split()[2])
        elif "delete" in words:
            self.tables.remove(words[-1])
        told = {"nftables": [{"metainfo": {}}, *({"table": {"name": t}} for t in self.tables)]}
        return SimpleNamespace(stdout=json.dumps(told))

    def has(self) -> tuple[str, ...]:
        return tuple((self.settings / name).read_text().strip() for name in (FORWARD, WATCHERS))


@pytest.fixture(params=[("0", "128"), ("1", "65536")])
def machine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:  # fmt: skip
    made = Machine(tmp_path, *request.param)
    monkeypatch.setattr(network, "run", made.run)
    monkeypatch.setattr(kernel, "SETTINGS", made.settings)
    monkeypatch.setattr(kernel, "KEPT", tmp_path / "lab")
    return made


def test_settings_return_with_the_last_network_to_what_they_were(
    machine: Machine, tmp_path: Path
) -> None:
    before = machine.has()
    raised = ("1", str(max(int(before[1]), 8192)))
    for name in ("one", "two"):
        network.let_out(TABLES + name, RACK.network)
        assert machine.has() == raised
    network.shut_in(f"{TABLES}one")
    assert machine.has() == raised
    network.shut_in(f"{TABLES}two")
    assert machine.has() == before
    assert machine.tables == ["filter"]
    assert not list(tmp_path.glob("lab/*"))
