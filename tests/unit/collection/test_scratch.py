"""appliance.host.scratch: disks are judged before anything is made of them, and never overwritten."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.collection_host import Host

Run = Callable[..., dict[str, Any]]
LABEL = "app-scratch"
A, B = "/dev/sda", "/dev/sdb"


def device(path: str, mountpoint: str | None = None, **more: object) -> dict[str, object]:
    """A device as lsblk has it."""
    name = path.rpartition("/")[2]
    return {"name": name, "kname": name, "path": path, "mountpoint": mountpoint, **more}


def signature(path: str, label: str | None, kind: str = "linux_raid_member") -> dict[str, object]:
    """A signature as wipefs has it."""
    return {"device": path.rpartition("/")[2], "type": kind, "label": label}


class Rack:
    """A pretended host with disks, and the module for it."""

    def __init__(self, run: Run, host: Host, made: Path) -> None:
        self._run, self.host, self.made = run, host, made
        self.holds({})
        for program in ("mdadm", "mkfs.xfs"):
            host.answer(program, (0, "", ""))

    def holds(self, wanted: dict[str, str | None], *, lsblk: dict[str, Any] | None = None) -> None:
        """What is signed on which disk; what lsblk has to say of one beside its names."""
        found = [device(path, **(lsblk or {}).get(path, {})) for path in (A, B)]
        signed = json.dumps({"signatures": [signature(p, label) for p, label in wanted.items()]})
        self.host.answer("lsblk", (0, json.dumps({"blockdevices": found}), ""))
        self.host.answer("wipefs", (0, signed if wanted else "", ""))

    def apply(self, *devices: str, **more: Any) -> dict[str, Any]:
        given = devices or (A, B)
        if not any(start.startswith("readlink") for start, _ in self.host.answers):
            self.host.answer("readlink", (0, "".join(f"{path}\n" for path in given), ""))
        return self._run("scratch", devices=list(given), label=LABEL, **more)

    @property
    def changes(self) -> list[str]:
        return [call for call in self.host.calls if call.startswith("m")]


@pytest.fixture
def rack(
    run: Run,
    host: Host,
    plugin: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Rack:
    module = plugin("module_utils.resources.scratch")
    monkeypatch.setattr(module, "ARRAYS", str(tmp_path / "md"))
    monkeypatch.setattr(module, "LABELS", str(tmp_path / "by-label"))
    return Rack(run, host, tmp_path)


def test_blank_disks_become_one_array_with_a_file_system(rack: Rack) -> None:
    answer = rack.apply()
    array = rack.made / "md" / LABEL
    assert answer["changed"] is True
    assert answer["blank"] == [A, B]
    assert rack.changes == [
        f"mdadm --create {array} --name={LABEL} --level=0 --raid-devices=2 {A} {B}",
        f"mkfs.xfs -L {LABEL} {array}",
    ]


def test_one_blank_disk_has_the_file_system_itself(rack: Rack) -> None:
    rack.host.answer("lsblk", (0, json.dumps({"blockdevices": [device(A)]}), ""))
    rack.apply(A)
    assert rack.changes == [f"mkfs.xfs -L {LABEL} {A}"]


def test_what_is_made_stays(rack: Rack) -> None:
    rack.holds({A: f"head:{LABEL}", B: f"head:{LABEL}"})
    (rack.made / "by-label").mkdir()
    (rack.made / "by-label" / LABEL).touch()
    assert rack.apply()["changed"] is False
    assert rack.changes == []


def test_an_array_without_a_file_system_gets_one(rack: Rack) -> None:
    rack.holds({A: f"head:{LABEL}", B: f"head:{LABEL}"})
    assert rack.apply()["changed"] is True
    assert rack.changes == [f"mkfs.xfs -L {LABEL} {rack.made / 'md' / LABEL}"]


@pytest.mark.parametrize("how", [{"state": "judged"}, {"check": True}])
def test_nothing_is_made_of_disks_that_are_only_judged(rack: Rack, how: dict[str, Any]) -> None:
    answer = rack.apply(**how)
    assert answer["changed"] is bool(how.get("check"))
    assert rack.changes == []


@pytest.mark.parametrize(
    ("signed", "lsblk"),
    [
        ({B: "root"}, {}),
        ({B: None}, {}),
        ({B: f"{LABEL}-2"}, {}),
        ({}, {B: {"mountpoint": "/srv"}}),
        ({}, {B: {"children": [{"name": "sdb1"}]}}),
    ],
    ids=["label", "no label", "longer label", "mounted", "partitions"],
)
@pytest.mark.parametrize("state", ["judged", "present"])
def test_a_foreign_disk_is_refused_by_name(
    rack: Rack, signed: dict[str, str | None], lsblk: dict[str, Any], state: str
) -> None:
    rack.holds(signed, lsblk=lsblk)
    answer = rack.apply(state=state)
    assert answer["msg"].startswith(f"{B} of storage.scratch.devices carries a file system")
    assert rack.changes == []


def test_a_disk_that_carries_more_than_ours_is_foreign(rack: Rack) -> None:
    both = [signature(B, LABEL, "xfs"), signature(B, None, "dos")]
    rack.host.answer("wipefs", (0, json.dumps({"signatures": both}), ""))
    assert rack.apply()["msg"].startswith(f"{B} of storage.scratch.devices")


def test_a_blank_disk_beside_one_of_ours_is_refused(rack: Rack) -> None:
    rack.holds({A: f"head:{LABEL}"})
    answer = rack.apply()
    assert answer["msg"].startswith(
        f"{B} is blank while {A} already carries the appliance's scratch"
    )
    assert "a disk was replaced or added" in answer["msg"]
    assert rack.changes == []


def test_a_disk_that_is_not_there_is_named(rack: Rack) -> None:
    why = "readlink: /dev/none: No such file or directory\n"
    rack.host.answer("readlink", (1, f"{A}\n", why))
    answer = rack.apply(A, "/dev/none")
    assert answer["msg"] == (
        f"storage.scratch.devices names {A}, /dev/none; readlink: /dev/none: No such file or directory. "
        "lsblk lists what this host has."
    )


def test_a_disk_that_is_named_twice_is_refused(rack: Rack) -> None:
    rack.host.answer("readlink", (0, f"{A}\n{A}\n", ""))
    assert "two of them are the same device" in rack.apply(A, "/dev/disk/by-id/a")["msg"]


def test_a_program_that_fails_ends_it(rack: Rack) -> None:
    rack.host.answer("mdadm", (1, "", "mdadm: /dev/sda is busy\nmdadm: failed to create"))
    answer = rack.apply()
    assert answer["msg"].startswith("mdadm --create ")
    assert [call.split()[0] for call in rack.changes] == ["mdadm"]
