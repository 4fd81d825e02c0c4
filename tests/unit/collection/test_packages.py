"""appliance.host.packages against a pretended dpkg and dnf."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.support.collection_host import Host

Run = Callable[..., dict[str, Any]]
Plugin = Callable[[str], ModuleType]
QUERY = "dpkg-query -W -f"
BASH = "bash\tii \t5.2\t\n"
MAWK = "mawk\tii \t1.3\tawk (= 1), other\n"
NONE = "0 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.\n"
ONE = "0 upgraded, 1 newly installed, 0 to remove and 0 not upgraded.\n"
LOST = (100, "", "E: Unable to locate package slurmd\n")


@pytest.fixture(autouse=True)
def debian(
    plugin: Plugin, host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> ModuleType:
    """A Debian host with fresh package lists and a journal of dpkg in ``tmp_path``."""
    apt = plugin("module_utils.apt")
    monkeypatch.setattr(plugin("module_utils.resources.packages"), "available", lambda: True)
    monkeypatch.setattr(apt, "lists_present", lambda: True)
    monkeypatch.setattr(apt.time, "sleep", lambda _: None)
    monkeypatch.setattr(apt, "_wait_for_lock", lambda _: None)
    host.answer(QUERY, (0, BASH + MAWK, ""))
    return apt


def test_one_query_decides_that_nothing_is_to_do(run: Run, host: Host) -> None:
    answer = run("packages", present=["bash", "awk"], absent=["gone"], pins={"bash": "5.2"})
    assert not answer["changed"]
    assert len(host.calls) == 1
    assert answer["versions"] == {"bash": "5.2", "mawk": "1.3"}
    assert answer["resources"][0] == {"kind": "package", "name": "bash"}


def test_what_is_missing_is_installed_and_what_is_unwanted_removed_at_once(
    run: Run, host: Host
) -> None:
    host.answer(QUERY, (0, BASH + MAWK, ""), (0, BASH + "zip\tii \t3\t\n", ""))
    host.answer("apt-get", (0, ONE, ""))
    answer = run("packages", present=["bash", "zip"], absent=["mawk"])
    assert answer["changed"]
    assert answer["versions"]["zip"] == "3"
    (call,) = host.called("apt-get")
    assert call.endswith("install zip mawk-")
    assert "--no-install-recommends" in call
    assert "--force-confold" in call
    assert "DPkg::Lock::Timeout=300" in call
    assert "downgrades" not in call


def test_the_lists_are_fetched_only_when_a_package_is_not_found(run: Run, host: Host) -> None:
    host.answer(QUERY, (0, BASH, ""), (0, BASH + "slurmd\tii \t22\t\n", ""))
    host.answer("apt-get", LOST, (0, ONE, ""))
    host.answer("apt-get -q update", (0, "", ""))
    assert run("packages", present=["slurmd"])["changed"]
    assert len(host.called("apt-get -q update")) == 1


def test_a_package_nobody_has_is_named(run: Run, host: Host) -> None:
    host.answer("apt-get", LOST)
    host.answer("apt-get -q update", (0, "", ""))
    answer = run("packages", present=["slurmd"])
    assert answer["msg"] == "installing slurmd: Unable to locate package slurmd"


def test_a_pin_may_go_back_and_keeps_its_hold(run: Run, host: Host) -> None:
    held, free = "bash\thi \t5.3\t\n", "bash\tii \t5.2\t\n"
    host.answer(QUERY, (0, held, ""), (0, free, ""))
    host.answer("apt-get", (0, NONE.replace("installed, 0", "installed, 1 downgraded, 0"), ""))
    host.answer("apt-mark", (0, "", ""))
    assert run("packages", pins={"bash": "5.2"})["changed"]
    (call,) = host.called("apt-get")
    assert "--allow-downgrades --allow-change-held-packages install bash=5.2" in call
    assert host.called("apt-mark") == ["apt-mark hold bash"]


def test_a_held_package_that_shall_go_goes(run: Run, host: Host) -> None:
    host.answer(QUERY, (0, "bash\thi \t5.3\t\n", ""), (0, "bash\tun \t\t\n", ""))
    host.answer("apt-get", (0, NONE.replace("0 to remove", "1 to remove"), ""))
    assert run("packages", absent=["bash"], purge=True)["changed"]
    (call,) = host.called("apt-get")
    assert "--allow-change-held-packages --purge install bash-" in call
    assert host.called("apt-mark") == []


OLDER, NEWER = (0, "", ""), (1, "", "")
"""What dpkg --compare-versions INSTALLED lt PIN answers (dpkg(1))."""


def test_what_is_not_held_is_brought_to_its_pin_or_a_newer_one(run: Run, host: Host) -> None:
    host.answer(QUERY, (0, BASH, ""), (0, BASH.replace("5.2", "5.4") + "zip\tii \t3\t\n", ""))
    host.answer("dpkg --compare-versions 5.2 lt 5.3", OLDER)
    host.answer("dpkg --compare-versions 5.4 lt 5.3", NEWER)
    host.answer("dpkg --compare-versions 3 lt 2", NEWER)
    host.answer("apt-get", (0, ONE, ""))
    answer = run("packages", present=["zip", "bash"], pins={"bash": "5.3", "zip": "2"})
    (call,) = host.called("apt-get")
    assert call.endswith("install bash zip")
    assert "downgrades" not in call
    assert answer["versions"] == {"bash": "5.4", "zip": "3"}


def test_what_was_updated_meanwhile_is_left_alone(run: Run, host: Host) -> None:
    host.answer("dpkg --compare-versions 5.2 lt 5.1", NEWER)
    assert not run("packages", present=["bash"], pins={"bash": "5.1"})["changed"]
    assert host.called("apt-get") == []


def test_one_that_stays_older_than_proved_is_told(run: Run, host: Host) -> None:
    host.answer("dpkg --compare-versions", OLDER)
    host.answer("apt-get", (0, NONE, ""))
    assert run("packages", pins={"bash": "5.3"})["msg"].startswith(
        "package bash: 5.2 is older than the 5.3 that was proved, and no repository"
    )


LOCKED = (
    100,
    "",
    "dpkg: error: dpkg frontend lock was locked by another process with pid 7\n"
    "Note: removing the lock file is always wrong, can damage the locked area\n"
    "E: Sub-process dpkg --set-selections returned an error code (2)\n"
    "E: Executing dpkg failed. Are you root?\n",
)
"""apt-mark 2.6.1 of Debian 12 beside an apt-get that works. It does not know DPkg::Lock::Timeout."""


@pytest.fixture
def losing(host: Host) -> Host:
    """A host on which apt-get takes a hold away, as it does when it may change what is held."""
    held, free = "bash\thi \t5.3\t\n", "bash\tii \t5.2\t\n"
    host.answer(QUERY, (0, held, ""), (0, free, ""))
    host.answer("apt-get", (0, NONE.replace("installed, 0", "installed, 1 downgraded, 0"), ""))
    return host


def test_a_hold_waits_for_another_stage_at_work(run: Run, losing: Host) -> None:
    losing.answer("apt-mark", LOCKED, LOCKED, (0, "", ""))
    assert run("packages", pins={"bash": "5.2"})["changed"]
    assert losing.called("apt-mark") == ["apt-mark hold bash"] * 3


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (LOCKED, "holding bash: dpkg frontend lock was locked by another process with pid 7"),
        ((100, "", "E: No packages found\n"), "holding bash: No packages found"),
    ],
)
def test_a_hold_that_fails_is_told(
    run: Run,
    losing: Host,
    debian: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    answer: tuple[int, str, str],
    line: str,
) -> None:
    monkeypatch.setattr(debian, "LOCK_SECONDS", 0)
    losing.answer("apt-mark", answer)
    assert run("packages", pins={"bash": "5.2"})["msg"] == line


def test_a_file_says_which_version_be_it_older(run: Run, host: Host) -> None:
    host.answer("apt-get", (0, ONE, ""))
    run("packages", present=["/files/enroot_4.1.2-1_amd64.deb"])
    (call,) = host.called("apt-get")
    assert call.endswith("--allow-change-held-packages install /files/enroot_4.1.2-1_amd64.deb")
    assert "--allow-downgrades" in call


def test_a_version_that_is_gone_is_one_clear_line(run: Run, host: Host) -> None:
    host.answer(QUERY, (0, BASH.replace("ii", "hi"), ""))
    host.answer("apt-get", (100, "", "E: Version '5.1' for 'bash' was not found\n"))
    host.answer("apt-get -q update", (0, "", ""))
    host.answer(
        "apt-cache madison bash", (0, " bash | 5.2 | http://x\n bash | 5.2 | http://y\n", "")
    )
    answer = run("packages", pins={"bash": "5.1"})
    assert answer["msg"] == (
        "package bash: version 5.1 is in no repository of this host any more (there is 5.2)"
    )


def test_an_interrupted_dpkg_is_finished_first(run: Run, host: Host) -> None:
    broken = "bash\tiU \t5.2\t\n"
    host.answer(QUERY, (0, broken, ""), (0, broken, ""), (0, BASH, ""))
    host.answer("dpkg --force", (0, "", ""))
    host.answer("apt-get", (0, NONE, ""))
    assert run("packages", present=["bash"])["changed"]
    assert host.calls[2].endswith("--configure -a")
    assert host.calls[3].endswith("--fix-broken install")


def test_another_dpkg_at_work_is_not_taken_for_an_interrupted_one(run: Run, host: Host) -> None:
    host.answer(QUERY, (0, "bash\tiH \t5.2\t\n", ""), (0, BASH, ""))
    assert not run("packages", present=["bash"])["changed"]


def test_a_lock_that_cannot_be_made_on_a_full_disk_is_not_waited_for(run: Run, host: Host) -> None:
    full = (
        "E: Could not open lock file /var/lib/dpkg/lock-frontend - open (28: No space left on device)\n"
        "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), are you root?\n"
    )
    host.answer("apt-get", (100, "", full))
    answer = run("packages", present=["zip"])
    assert "no space left on device" in answer["msg"]
    assert len(host.called("apt-get")) == 1


def test_a_busy_lock_is_waited_for(run: Run, host: Host) -> None:
    host.answer(QUERY, (0, BASH, ""), (0, BASH + "zip\tii \t3\t\n", ""))
    busy = (100, "", "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1\n")
    host.answer("apt-get", busy, busy, (0, ONE, ""))
    assert run("packages", present=["zip"])["changed"]
    assert len(host.called("apt-get")) == 3


def test_a_lost_race_for_the_cache_of_the_lists_is_run_again(run: Run, host: Host) -> None:
    host.answer(QUERY, (0, BASH, ""), (0, BASH + "zip\tii \t3\t\n", ""))
    lost = (
        "E: Problem renaming the file /var/cache/apt/pkgcache.bin.9x50DT to /var/cache/apt/pkgcache.bin - rename "
        "(2: No such file or directory)\n"
    )
    host.answer("apt-get", (100, "", lost), (0, ONE, ""))
    assert run("packages", present=["zip"])["changed"]
    assert len(host.called("apt-get")) == 2


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            "E: You don't have enough free space in /var/cache/apt/archives/.\n",
            "installing zip: no space left on device (/full)",
        ),
        (
            "dpkg: error processing package zip (--configure):\n installed zip package post-installation "
            "script subprocess returned error exit status 1\nE: Sub-process /usr/bin/dpkg returned an error code (1)\n",
            "installing zip: error processing package zip (--configure): installed zip package "
            "post-installation script subprocess returned error exit status 1",
        ),
        (
            "The following packages have unmet dependencies:\n zip : Depends: libz (>= 9) but it is not installable\n"
            "E: Unable to correct problems, you have held broken packages.\n",
            "installing zip: zip : Depends: libz (>= 9) but it is not installable",
        ),
    ],
)
def test_failures_are_one_line(
    run: Run, host: Host, debian: ModuleType, monkeypatch: pytest.MonkeyPatch, said: str, line: str
) -> None:
    monkeypatch.setattr(debian, "full_file_systems", lambda: "/full")
    host.answer("apt-get", (100, said, ""))
    assert run("packages", present=["zip"])["msg"] == line


def test_check_mode_simulates(run: Run, host: Host) -> None:
    host.answer("apt-get", (0, ONE, ""))
    assert run("packages", check=True, present=["zip"])["changed"]
    assert "--simulate" in host.called("apt-get")[0]
    assert not host.called("apt-get -q update")


def test_success_without_the_package_is_not_believed(run: Run, host: Host) -> None:
    host.answer("apt-get", (0, NONE, ""))
    assert "not installed although" in run("packages", present=["zip"])["msg"]


@pytest.fixture
def red_hat(plugin: Plugin, host: Host, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host with dnf and two packages."""
    from ansible.module_utils.basic import AnsibleModule

    monkeypatch.setattr(plugin("module_utils.resources.packages"), "available", lambda: False)
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda *_a, **_k: "/usr/bin/dnf")
    host.answer("rpm -qa", (0, "bash\t5.1-9.el9\nchrony\t1:4.5-1.el9\n", ""))
    return host


@pytest.fixture
def dnf(red_hat: Host, plugin: Plugin) -> Any:
    """The host's package tools."""
    module = SimpleNamespace(run_command=lambda *a, **k: red_hat(None, *a, **k), check_mode=False)
    return plugin("module_utils.dnf").Dnf(module)


def test_dnf_is_not_started_when_nothing_is_to_do(run: Run, red_hat: Host) -> None:
    answer = run("packages", present=["bash"], pins={"chrony": "1:4.5-1.el9"}, absent=["zip"])
    assert not answer["changed"]
    assert len(red_hat.calls) == 1
    assert answer["versions"] == {"bash": "5.1-9.el9", "chrony": "1:4.5-1.el9"}


def test_dnf_installs_an_exact_version_of_what_is_held(run: Run, red_hat: Host) -> None:
    red_hat.answer("rpm -qa", (0, "bash\t5.2-1\n", ""), (0, "bash\t5.1-9\n", ""))
    red_hat.answer("dnf", (0, "", ""))
    assert run("packages", pins={"bash": "5.1-9"}, releases={"bash": "5.1"})["changed"]
    (call,) = red_hat.called("dnf")
    assert call.endswith("install bash-5.1-9")
    assert "install_weak_deps=False" in call


@pytest.mark.parametrize(("order", "asked"), [("-1\n", ["install bash"]), ("1\n", [])])
def test_dnf_brings_what_is_not_held_to_its_pin_or_a_newer_one(
    run: Run, red_hat: Host, order: str, asked: list[str]
) -> None:
    red_hat.answer("rpm -qa", (0, "bash\t5.1-9\n", ""), (0, "bash\t5.3-1\n", ""))
    red_hat.answer("rpm --eval", (0, order, ""), (0, "1\n", ""))
    red_hat.answer("dnf", (0, "", ""))
    run("packages", pins={"bash": "5.2-1"})
    assert [call[-len(asked[0]) :] if asked else call for call in red_hat.called("dnf")] == asked


def test_dnf_looks_again_before_it_gives_up(run: Run, red_hat: Host) -> None:
    red_hat.answer("rpm -q ", (1, "", ""))
    red_hat.answer(
        "dnf", (1, "", "No match for argument: slurmd\nError: Unable to find a match: slurmd\n")
    )
    answer = run("packages", present=["slurmd"])
    assert len(red_hat.called("dnf --refresh")) == 1
    assert answer["msg"] == "installing slurmd: slurmd is in no repository of this host"


KERNEL = "kernel-devel-5.14.0-503.11.1.el9_5.x86_64"


def test_one_of_several_kernels_packages_is_found_by_its_version(run: Run, red_hat: Host) -> None:
    red_hat.answer("rpm -q ", (0, "kernel-devel\t5.14.0-503.11.1.el9_5\n", ""))
    red_hat.answer("rpm -q --whatprovides", (1, f"no package provides {KERNEL}\n", ""))
    red_hat.answer("rpm -qa", (0, "kernel-devel\t5.14.0-503.11.1.el9_5\n", ""))
    answer = run("packages", present=[KERNEL])
    assert not answer["changed"]
    assert answer["resources"] == [{"kind": "package", "name": "kernel-devel"}]


def test_dnf_tells_what_is_offered_the_newest_first(red_hat: Host, dnf: Any) -> None:
    red_hat.answer("dnf", (0, "kubelet 0:1.34.1-1\n\nkubelet 0:1.35.0-1\n\nchrony 1:4.5-1\n", ""))
    offered = {"kubelet": ["1.35.0-1", "1.34.1-1"], "chrony": ["1:4.5-1"]}
    assert dnf.offered(["kubelet", "chrony"]) == offered


@pytest.mark.parametrize(
    ("ask", "line"),
    [
        (lambda dnf: dnf.offered(["kubelet"]), "asking for versions of kubelet: Error: no mirror"),
        (lambda dnf: dnf.refresh(), "refreshing the package lists: Error: no mirror"),
    ],
)
def test_dnf_that_fails_has_not_answered(
    red_hat: Host, dnf: Any, plugin: Plugin, ask: Callable[[Any], None], line: str
) -> None:
    red_hat.answer("dnf", (1, "", "Error: no mirror\n"))
    with pytest.raises(plugin("module_utils.outcome").Problem, match=line):
        ask(dnf)


def test_apt_that_fails_has_not_answered(host: Host, debian: ModuleType) -> None:
    host.answer(
        "apt-cache", (100, "", "E: The package lists or status file could not be parsed.\n")
    )
    with pytest.raises(debian.Problem, match="asking for versions of bash: The package lists or"):
        debian.Apt(SimpleNamespace(run_command=lambda *a, **k: host(None, *a, **k))).offered(
            ["bash"]
        )


KUBELET = "kubelet\tii \t1.35.4-1.1\t\n"
HELD = KUBELET.replace("ii", "hi")
OFFERED = "kubelet | 1.35.10-1.1 | u\nkubelet | 1.35.4-1.1 | u\nkubelet | 1.36.0-1.1 | u\n"


@pytest.mark.parametrize(("release", "exact"), [("1.35", "1.35.10-1.1"), ("1.35.4", "1.35.4-1.1")])
def test_the_newest_package_of_a_release_is_installed_and_held(
    run: Run, host: Host, release: str, exact: str
) -> None:
    there = KUBELET.replace("1.35.4-1.1", exact)
    host.answer(QUERY, (0, BASH, ""), (0, BASH + there, ""), (0, BASH + HELD, ""))
    host.answer("apt-cache madison kubelet", (0, OFFERED, ""))
    host.answer("apt-get", (0, ONE, ""))
    host.answer("apt-mark", (0, "", ""))
    assert run("packages", present=["kubelet"], releases={"kubelet": release})["changed"]
    (call,) = host.called("apt-get")
    assert call.endswith(f"install kubelet={exact}")
    assert host.called("apt-mark") == ["apt-mark hold kubelet"]


def test_a_package_of_its_release_stays_though_there_is_a_newer_one(run: Run, host: Host) -> None:
    host.answer(QUERY, (0, HELD, ""))
    assert not run("packages", present=["kubelet"], releases={"kubelet": "1.35"})["changed"]
    assert len(host.calls) == 1


def test_a_hold_that_somebody_took_away_is_put_back(run: Run, host: Host) -> None:
    host.answer(QUERY, (0, KUBELET, ""), (0, HELD, ""))
    host.answer("apt-mark", (0, "", ""))
    assert run("packages", releases={"kubelet": "1.35"})["changed"]
    assert host.called("apt-mark") == ["apt-mark hold kubelet"]


def test_a_release_that_nobody_offers_is_told_with_what_there_is(run: Run, host: Host) -> None:
    host.answer("apt-cache madison kubelet", (0, OFFERED, ""))
    host.answer("apt-get -q update", (0, "", ""))
    answer = run("packages", present=["kubelet"], releases={"kubelet": "1.35.5"})
    assert (
        "no repository of this host offers kubelet 1.35.5 (there is 1.35.10-1.1, 1.35.4-1.1"
        in answer["msg"]
    )
    assert len(host.called("apt-get -q update")) == 1


def test_a_repair_brings_back_the_very_version(run: Run, host: Host) -> None:
    host.answer(QUERY, (0, HELD, ""), (0, HELD.replace("1.35.4", "1.35.3"), ""))
    host.answer("apt-get", (0, ONE, ""))
    pins = {"kubelet": "1.35.3-1.1"}
    assert run("packages", pins=pins, releases={"kubelet": "1.35"})["changed"]
    assert host.called("apt-get")[0].endswith("install kubelet=1.35.3-1.1")


def test_dnf_lifts_what_a_repositorys_file_excludes_for_an_exact_version_alone(
    run: Run, red_hat: Host
) -> None:
    new = "bash\t5.2-1\nkubelet\t1.35.4-1\n"
    red_hat.answer("rpm -qa", (0, "bash\t5.2-1\n", ""), (0, new, ""))
    red_hat.answer("dnf", (0, "", ""))
    red_hat.answer("dnf -q --disableexcludes=all repoquery", (0, "kubelet 0:1.35.4-1\n", ""))
    assert run("packages", present=["kubelet"], releases={"kubelet": "1.35"})["changed"]
    (call,) = [c for c in red_hat.called("dnf") if "repoquery" not in c]
    assert call.endswith("--disableexcludes=all install kubelet-1.35.4-1")
