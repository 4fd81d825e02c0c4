"""What is in force: the loaded firewall line by line, sshd's settings, what systemd has loaded of a unit."""

from collections.abc import Callable
from typing import Any

from appliance.probe.__main__ import answer
from appliance.probe.ask import Ask
from appliance.probe.collectors.units import parse
from appliance.probe.drift import differences
from appliance.probe.in_force import WEAK, statements
from appliance.probe.state import Observer

Grow = Callable[[dict[str, Any]], str]
TABLE = """table inet appliance {
\tset site {
\t\ttype ipv4_addr
\t\telements = { 10.0.0.0/24,
\t\t\t     10.1.0.0/24 }
\t}

\tchain input {
\t\ttype filter hook input priority 0; policy drop;
\t\tct state established,related accept
\t\tmeta l4proto { 1, 58 } accept
\t}
}
"""
NFT = "/usr/sbin/nft"


def look(root: str, kind: str, name: str) -> dict[str, Any]:
    return Observer(Ask({}, root), []).look(kind, name)


def table(grow: Grow, said: str, known: str = "") -> dict[str, Any]:
    program = {"when": {"list table ": said, "list tables": known}, "exit": 0}
    return look(grow({NFT: program}), "nftables", "inet appliance")


def test_each_line_names_where_it_stands() -> None:
    assert statements(TABLE) == [
        "set site",
        "set site: type ipv4_addr",
        "set site: elements = { 10.0.0.0/24,",
        "set site: 10.1.0.0/24 }",
        "chain input",
        "chain input: type filter hook input priority 0; policy drop;",
        "chain input: ct state established,related accept",
        "chain input: meta l4proto { 1, 58 } accept",
    ]


def test_a_table_as_it_was_is_no_difference(grow: Grow) -> None:
    assert differences(table(grow, TABLE), table(grow, TABLE)) == []


def test_what_came_and_what_went_is_named_with_its_chain(grow: Grow) -> None:
    good = table(grow, TABLE)
    added = table(grow, TABLE.replace("\t\tmeta", "\t\ttcp dport 99 accept\n\t\tmeta"))
    open_ = table(grow, TABLE.replace("policy drop", "policy accept"))
    kind, before, after = differences(good, added)[0]
    assert (kind, before, after) == (
        "nftables",
        "as written",
        '"chain input: tcp dport 99 accept"',
    )
    assert differences(added, good)[0][1:] == ('"chain input: tcp dport 99 accept"', "missing")
    assert (
        '"chain input: type filter hook input priority 0; policy accept;"'
        in differences(good, open_)[0]
    )
    moved = statements(TABLE)[:-2] + statements(TABLE)[:-3:-1]
    assert differences(good, {**good, "sha256": "x", "lines": moved})[0][2] == "in another order"


def test_a_table_that_is_gone_is_told(grow: Grow) -> None:
    assert table(grow, "", "table ip other\n") == {
        "kind": "nftables",
        "name": "inet appliance",
        "loaded": False,
    }
    assert differences(table(grow, TABLE), table(grow, ""))[0][1:] == ("loaded", "not loaded")


def test_a_table_nobody_may_see_is_not_called_gone(grow: Grow) -> None:
    assert "error" in table(grow, "", "table inet appliance\n")
    nobody = grow({NFT: {"when": {}}})
    assert "error" in look(nobody, "nftables", "inet appliance")


def test_sshd_is_asked_what_counts_for_root(grow: Grow) -> None:
    said = "permitrootlogin yes\nhostkey /a\nhostkey /b\n"
    root = grow({"/usr/sbin/sshd": {"when": {"-T -C user=root,": said}}})
    assert look(root, "sshd", "permitrootlogin")["value"] == "yes"
    assert look(root, "sshd", "hostkey")["value"] == "/a, /b"
    assert look(root, "sshd", "gone")["value"] == ""


def test_sshd_s_weak_algorithms_are_told_by_name(grow: Grow) -> None:
    said = (
        "kexalgorithms sntrup761x25519-sha512@openssh.com,ecdh-sha2-nistp256,diffie-hellman-group14-sha256\n"
        "ciphers aes256-gcm@openssh.com,rijndael-cbc@lysator.liu.se\n"
        "macs hmac-sha2-256-etm@openssh.com,hmac-sha2-256,umac-64-etm@openssh.com\n"
        "hostkeyalgorithms ssh-ed25519,rsa-sha2-512,sk-ecdsa-sha2-nistp256@openssh.com\n"
    )
    root = grow({"/usr/sbin/sshd": {"when": {"-T -C user=root,": said}}})
    weak = {name: look(root, "sshd", f"weak {name}")["value"] for name in WEAK}
    assert weak == {
        "kexalgorithms": "ecdh-sha2-nistp256,diffie-hellman-group14-sha256",
        "ciphers": "rijndael-cbc@lysator.liu.se",
        "macs": "hmac-sha2-256,umac-64-etm@openssh.com",
        "hostkeyalgorithms": "none",
    }
    nist = look(root, "sshd", "nist hostkeyalgorithms")["value"]
    assert nist == "sk-ecdsa-sha2-nistp256@openssh.com"


def test_sshd_that_names_no_list_is_not_called_strong(grow: Grow) -> None:
    root = grow({"/usr/sbin/sshd": {"when": {"-T -C user=root,": "port 22\n"}}})
    assert look(root, "sshd", "weak macs")["value"] == ""


def test_sshd_that_does_not_answer_is_unread(grow: Grow) -> None:
    root = grow({"/usr/sbin/sshd": {"when": {}}})
    assert "error" in look(root, "sshd", "permitrootlogin")


def unit(**changes: str) -> dict[str, Any]:
    shown = {
        "LoadState": "loaded",
        "ActiveState": "active",
        "SubState": "running",
        "UnitFileState": "enabled",
        "FragmentPath": "/lib/systemd/system/x.service",
        "DropInPaths": "/usr/lib/systemd/system/x.service.d/v.conf",
        "NeedDaemonReload": "no",
        **changes,
    }
    said = "\n".join(f"{key}={value}" for key, value in shown.items())
    state = parse(["x.service"], said)["x.service"]
    return {"kind": "unit", "name": "x.service", **state}


def test_what_a_unit_is_made_of_is_apart_from_whether_it_runs() -> None:
    by_hand = unit(DropInPaths="/etc/systemd/system/x.service.d/zz.conf")
    over = unit(FragmentPath="/run/systemd/system/x.service")
    assert differences(unit(), by_hand) == [
        ("unit file", "as written", "/etc/systemd/system/x.service.d/zz.conf")
    ]
    assert differences(unit(), over)[0][2] == "/run/systemd/system/x.service"
    assert differences(by_hand, unit())[0][1:] == (
        "/etc/systemd/system/x.service.d/zz.conf",
        "missing",
    )
    assert [d[0] for d in differences(unit(), unit(ActiveState="failed"))] == ["unit"]


def test_a_package_may_bring_unit_files_of_its_own() -> None:
    new = unit(FragmentPath="/usr/lib/systemd/system/x.service", DropInPaths="")
    assert differences(unit(), new) == []


def test_files_that_systemd_has_not_read_are_told() -> None:
    assert differences(unit(), unit(NeedDaemonReload="yes")) == [
        ("unit file", "loaded", "changed on disk since systemd read it")
    ]


def test_of_a_receipt_of_an_earlier_release_no_more_is_asked() -> None:
    old = {k: v for k, v in unit().items() if k not in {"definition", "stale"}}
    assert differences(old, unit(FragmentPath="/etc/systemd/system/x.service")) == []


def mount(*flags: str) -> dict[str, Any]:
    known = {"kind": "mount", "name": "/s", "mounted": True, "source": "/dev/s", "type": "xfs"}
    return {**known, "flags": sorted(flags)}


def test_what_a_mount_forbids_is_apart_from_what_is_mounted(grow: Grow) -> None:
    line = "42 25 0:60 / /s rw,noatime{} - xfs /dev/s rw\n"
    assert look(grow({"/proc/self/mountinfo": line.format("")}), "mount", "/s") == mount()
    found = look(grow({"/proc/self/mountinfo": line.format(",nosuid,noexec")}), "mount", "/s")
    assert found == mount("noexec", "nosuid")
    assert differences(mount(), found) == [("mount options", "none", "noexec, nosuid")]
    assert differences(mount("ro"), mount("ro")) == []
    gone = {"kind": "mount", "name": "/s", "mounted": False}
    assert [d[0] for d in differences(mount(), gone)] == ["mount"]
    old = {k: v for k, v in mount().items() if k != "flags"}
    assert differences(old, found) == [], "a receipt of an earlier release knows no options"


def at_boot(root: str) -> dict[str, dict[str, str]]:
    found = answer(
        b'{"areas": ["sysctl"], "sysctl": ["vm.swappiness", "net.core.somaxconn"]}', root
    )
    boot: dict[str, dict[str, str]] = found["sysctl_at_boot"]  # type: ignore[assignment]
    return boot


OURS = "/etc/sysctl.d/60-appliance-base.conf"


def test_the_last_file_has_the_word_at_boot(grow: Grow) -> None:
    ours = {OURS: "# ours\nvm.swappiness = 1\nnet.core.somaxconn=4096\n"}
    assert at_boot(grow(ours)) == {
        "vm.swappiness": {"value": "1", "file": OURS},
        "net.core.somaxconn": {"value": "4096", "file": OURS},
    }
    later = "/usr/lib/sysctl.d/99-x.conf"
    root = grow(
        {
            **ours,
            later: "-vm/swappiness=60\n;vm.swappiness=2\n",
            "/run/sysctl.d/10.conf": "vm.swappiness=9",
        }
    )
    assert at_boot(root)["vm.swappiness"] == {"value": "60", "file": later}


def test_of_files_with_one_name_the_administrators_counts(grow: Grow) -> None:
    hidden = {"/usr/lib/sysctl.d/70.conf": "vm.swappiness=60\n", "/etc/sysctl.d/70.conf": ""}
    assert "vm.swappiness" not in at_boot(grow(hidden))


def test_a_link_to_nothing_and_other_names_set_nothing(grow: Grow) -> None:
    assert (
        at_boot(
            grow(
                {
                    "/etc/sysctl.d/a.conf": {"link": "/nowhere"},
                    "/etc/sysctl.d/b.bak": "vm.swappiness=3",
                }
            )
        )
        == {}
    )
