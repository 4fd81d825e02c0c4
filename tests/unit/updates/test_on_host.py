"""The program that updates a host, with apt's recorded words."""

import ast
import subprocess  # noqa: TID251 - results of programs, none runs
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from appliance.updates import on_host

OPENSSL = "Inst openssl [3.0.15-1] (3.0.16-1 Debian-Security:12/oldstable-security [amd64])\n"
BASH = "Inst bash [5.2.15-2+b8] (5.2.15-2+b13 Debian:12.15/oldstable [amd64]) []\n"
EPOCH = "Inst vim [2:9.0-1] (2:9.1-1 Debian:12.15/oldstable, Debian-Security:12/oldstable-security [amd64])\n"
SLURM = "Inst slurmd [22.05.8-4] (22.05.8-5 Debian:12.15/oldstable [amd64])\n"
UPDATES = [
    {"name": "vim", "old": "2:9.0-1", "new": "2:9.1-1"},
    {"name": "libnew1", "old": "", "new": "1.0"},
]


class Apt:
    """Answers of apt and dpkg by the words of their command, and which commands ran."""

    def __init__(self) -> None:
        self.said: dict[str, str] = {}
        self.fails: dict[str, str] = {}
        self.ran: list[tuple[str, ...]] = []

    def __call__(self, *argv: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        self.ran.append(argv)
        for word, error in self.fails.items():
            if word in argv:
                return subprocess.CompletedProcess(argv, 100, "", error)
        if cwd and "download" in argv:
            name, _, version = argv[-1].partition("=")
            (cwd / f"{name}_{version.replace(':', '%3a')}_amd64.deb").touch()
        said = next((text for word, text in self.said.items() if word in argv), "")
        return subprocess.CompletedProcess(argv, 0, said, "")

    def installed(self) -> list[tuple[str, ...]]:
        return [a[a.index("install") + 1 :] for a in self.ran if "install" in a and "--yes" in a]


@pytest.fixture
def apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Apt:
    made = Apt()
    monkeypatch.setattr(on_host, "_done", made)
    monkeypatch.setattr(on_host, "ARCHIVES", tmp_path / "archives")
    monkeypatch.setattr(on_host, "stale_programs", lambda: [])
    monkeypatch.setattr("shutil.which", lambda name, path: f"/usr/bin/{name}")
    return made


def planned(tmp_path: Path, **more: Any) -> Any:
    return on_host.answer(
        {"do": "plan", "held": ["^slurm", "^linux-"], "security": False, **more}, tmp_path
    )


def applied(tmp_path: Path, run: str = "r1", updates: Sequence[Any] = UPDATES) -> Any:
    return on_host.answer({"do": "apply", "run": run, "updates": updates}, tmp_path)


def test_packages_of_stages_stay(apt: Apt, tmp_path: Path) -> None:
    apt.said = {"upgrade": OPENSSL + BASH + SLURM, "install": OPENSSL + BASH}
    found = planned(tmp_path)
    assert [one["name"] for one in found["updates"]] == ["openssl", "bash"]
    assert found["held"] == ["slurmd"]
    assert "slurmd=22.05.8-5" not in apt.ran[-1]


def test_only_security_updates_and_what_they_need(apt: Apt, tmp_path: Path) -> None:
    apt.said = {"upgrade": OPENSSL + BASH + EPOCH, "install": OPENSSL + EPOCH}
    found = planned(tmp_path, security=True)
    assert [(u["name"], u["new"], u["security"]) for u in found["updates"]] == [
        ("openssl", "3.0.16-1", True),
        ("vim", "2:9.1-1", True),
    ]
    assert apt.ran[-1][-2:] == ("openssl=3.0.16-1", "vim=2:9.1-1")


@pytest.mark.parametrize("more", [SLURM, "Remv slurmd [22.05.8-4]\n"])
def test_an_update_that_changes_a_package_of_a_stage_is_refused(
    apt: Apt, tmp_path: Path, more: str
) -> None:
    apt.said = {"upgrade": OPENSSL, "install": OPENSSL + more}
    with pytest.raises(on_host.Problem, match="need a change of slurmd"):
        planned(tmp_path)


def test_a_mirror_that_does_not_answer_is_named(apt: Apt, tmp_path: Path) -> None:
    apt.fails = {"update": "W: x\nE: Failed to fetch http://mirror/InRelease  Connection refused\n"}
    with pytest.raises(on_host.Problem, match=r"apt-get update: E: Failed to fetch .*refused"):
        planned(tmp_path)


def test_other_package_managers_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path: None)
    with pytest.raises(on_host.Problem, match="not apt's"):
        planned(tmp_path)


def test_old_packages_are_kept_before_the_first_change(apt: Apt, tmp_path: Path) -> None:
    apt.said = {"dpkg-query": "vim 2:9.1-1 ii\nlibnew1 1.0 ii\n"}
    assert applied(tmp_path) == {"changed": 2, "reboot": []}
    assert (tmp_path / "r1" / "vim_2%3a9.0-1_amd64.deb").exists()
    downloads = [i for i, argv in enumerate(apt.ran) if "download" in argv]
    installs = [i for i, argv in enumerate(apt.ran) if "vim=2:9.1-1" in argv]
    assert len(downloads) == 1
    assert downloads < installs


def test_a_copy_is_taken_from_the_cache_and_else_packed_again(apt: Apt, tmp_path: Path) -> None:
    apt.said = {"dpkg-query": "vim 2:9.1-1 ii\nlibnew1 1.0 ii\n"}
    apt.fails = {"download": "E: Version '2:9.0-1' for 'vim' was not found\n"}
    applied(tmp_path, "packed")
    assert ("dpkg-repack", "vim") in apt.ran
    (tmp_path / "archives").mkdir()
    (tmp_path / "archives" / "vim_2%3a9.0-1_amd64.deb").touch()
    apt.ran.clear()
    applied(tmp_path, "cached")
    assert (tmp_path / "cached" / "vim_2%3a9.0-1_amd64.deb").exists()
    assert not any("download" in argv or "dpkg-repack" in argv for argv in apt.ran)


def test_without_a_copy_nothing_is_updated(apt: Apt, tmp_path: Path) -> None:
    apt.fails = {"download": "E: not found\n", "dpkg-repack": "No space left on device\n"}
    with pytest.raises(
        on_host.Problem, match=r"vim 2:9\.0-1 cannot be kept: .* No space left on device"
    ):
        applied(tmp_path)
    assert apt.installed() == []
    assert not list(tmp_path.glob("*/record.json"))
    apt.fails = {}
    apt.said = {"dpkg-query": "vim 2:9.1-1 ii\nlibnew1 1.0 ii\n"}
    assert applied(tmp_path)["changed"] == 2


def test_a_package_that_stays_half_configured_is_not_updated(apt: Apt, tmp_path: Path) -> None:
    apt.said = {"dpkg-query": "vim 2:9.1-1 iF\nlibnew1 1.0 ii\n"}
    with pytest.raises(on_host.Problem, match="these were not updated: vim"):
        applied(tmp_path)


def test_the_way_back_installs_old_packages_and_removes_new_ones(apt: Apt, tmp_path: Path) -> None:
    kernel = {"name": "linux-image-6.1.0-40-amd64", "old": "", "new": "6.1.153-1"}
    there = "vim 2:9.1-1 ii\nlibnew1 1.0 ii\nlinux-image-6.1.0-40-amd64 6.1.153-1 ii\n"
    apt.said = {"dpkg-query": there, "dpkg-deb": "vim 2:9.0-1"}
    assert applied(tmp_path, updates=[*UPDATES, kernel])["reboot"] == ["a new kernel"]
    on_host.answer({"do": "back"}, tmp_path)
    file = str(tmp_path / "r1" / "vim_2%3a9.0-1_amd64.deb")
    assert apt.installed()[-1] == (file, "libnew1-")
    with pytest.raises(on_host.Problem, match="no update is recorded"):
        on_host.answer({"do": "back"}, tmp_path)


def test_the_way_back_leaves_packages_that_were_changed_since(apt: Apt, tmp_path: Path) -> None:
    apt.said = {"dpkg-query": "vim 2:9.1-1 ii\nlibnew1 1.0 ii\n", "dpkg-deb": "vim 2:9.0-1"}
    applied(tmp_path)
    apt.said["dpkg-query"] = "vim 2:9.2-1 ii\nlibnew1 1.0 ii\n"
    assert on_host.answer({"do": "back"}, tmp_path)["changed"] == 1
    assert apt.installed()[-1] == ("libnew1-",)


def test_copies_of_the_newest_updates_are_kept(apt: Apt, tmp_path: Path) -> None:
    apt.said = {"dpkg-query": "vim 2:9.1-1 ii\nlibnew1 1.0 ii\n"}
    for number in range(5):
        applied(tmp_path, f"r{number}")
    assert sorted(place.name for place in tmp_path.glob("r*")) == ["r2", "r3", "r4"]


def test_after_a_killed_update_packages_are_configured_and_a_reboot_is_due(
    apt: Apt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_host, "stale_programs", lambda: ["sshd"])
    found = on_host.answer({"do": "settle"}, tmp_path)
    assert apt.ran == [("dpkg", "--configure", "-a")]
    assert found == {"changed": 0, "reboot": ["programs use replaced files: sshd"]}


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "vim;reboot", "old": "1", "new": "2"},
        {"name": "-o", "old": "1", "new": "2"},
        {"name": "vim", "old": "1 2", "new": "2"},
        {"name": "vim", "old": "1", "new": "$(x)"},
    ],
)
def test_words_that_are_no_package_reach_no_command(
    apt: Apt, tmp_path: Path, wrong: dict[str, str]
) -> None:
    with pytest.raises(on_host.Problem):
        applied(tmp_path, updates=[wrong])
    assert apt.ran == []


def test_a_run_names_one_folder_and_no_path(apt: Apt, tmp_path: Path) -> None:
    with pytest.raises(on_host.Problem):
        applied(tmp_path, "../r1")


def test_programs_that_run_a_replaced_file_are_found(tmp_path: Path) -> None:
    mapped = "7f00-7f01 r-xp 00000000 08:01 42    "
    maps = {
        "old": "/usr/lib/x86_64-linux-gnu/libssl.so.3 (deleted)",
        "sound": "/usr/lib/x86_64-linux-gnu/libssl.so.3",
        "memory": "/memfd:pulse (deleted)",
        "temporary": "/tmp/x (deleted)",
        "forged": "/tmp/x /usr/lib/libc.so.6 (deleted)",
    }
    for number, (name, path) in enumerate(maps.items(), 1):
        place = tmp_path / str(number)
        place.mkdir()
        (place / "maps").write_text(f"{mapped}{path}\n")
        (place / "comm").write_text(f"{name}\n")
    assert on_host.stale_programs(tmp_path) == ["old"]


def test_the_error_names_the_package_that_dpkg_failed_on() -> None:
    text = (
        "Setting up site-tool (1.2) ...\n"
        "dpkg: error processing package site-tool (--configure):\n"
        " installed site-tool package post-installation script subprocess returned error exit status 7\n"
        "E: Sub-process /usr/bin/dpkg returned an error code (1)\n"
    )
    assert on_host._last(text).startswith("site-tool: installed site-tool package post-")
    assert on_host._last("W: a\nE: b\nc\n") == "E: b"
    assert on_host._last("") == "it failed without a message"


def test_it_needs_python_3_8_and_nothing_else() -> None:
    tree = ast.parse(Path(on_host.__file__).read_text(), feature_version=(3, 8))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any("appliance" in str(module) for module in modules)


def test_a_program_of_a_user_is_no_reason_for_a_reboot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1/maps").write_text("0-1 r-xp 0 08:01 42  /usr/lib/libc.so.6 (deleted)\n")
    (tmp_path / "1/comm").write_text("mine\n")
    assert on_host.stale_programs(tmp_path) == ["mine"]
    monkeypatch.setattr(on_host, "DAEMONS", ())
    monkeypatch.setattr("os.geteuid", lambda: (tmp_path / "1").stat().st_uid + 1)
    assert on_host.stale_programs(tmp_path) == []
