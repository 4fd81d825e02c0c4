"""appliance etcd with the hosts' own programs on made-up hosts: refused in time, restored on all, and what a failure leaves."""

import json
from pathlib import Path

import pytest

from tests.support.engine_session import hosts, recorder, session
from tests.support.etcd_bench import (
    HEADS,
    NAME,
    NOW,
    SITE,
    THEN,
    Bench,
    Head,
    bench,
    only_the_last_is_left,
    snapshot,
)

__all__ = ["bench", "hosts", "recorder", "session"]


def heads(bench: Bench) -> list[Head]:
    return list(bench.world.heads.values())


def test_a_backup_of_one_member_is_restored_on_all_as_one_cluster(bench: Bench) -> None:
    done = bench.restore()
    assert done.return_value == 0, done
    assert bench.world.states() == {THEN}
    assert all(head.is_up for head in heads(bench))
    cluster = "head=https://10.1.0.1:2380,head-2=https://10.1.0.2:2380,head-3=https://10.1.0.3:2380"
    tokens = set()
    for head in heads(bench):
        flags = dict(word.split("=", 1) for word in head.flags if word.startswith("--"))
        assert flags["--name"] == head.name
        assert flags["--initial-cluster"] == cluster
        assert flags["--initial-advertise-peer-urls"].startswith("https://10.1.0.")
        tokens.add(flags["--initial-cluster-token"])
        (kept,) = head.data.glob("before-*/member/db")
        assert kept.read_bytes() == NOW
        assert list(head.backups.glob(".*")) == []
    assert len(tokens) == 1
    assert bench.world.refreshed == ["gpu-1"]


def test_the_state_before_is_a_backup_that_leads_back(bench: Bench) -> None:
    bench.restore()
    (before,) = [
        p.stem for p in bench.world.heads["head-2"].backups.glob("*.snapshot") if p.stem != NAME
    ]
    assert bench.restore(before).return_value == 0
    assert bench.world.states() == {NOW}


def test_every_member_is_made_ready_before_one_is_stopped_and_all_are_stopped_before_one_is_changed(
    bench: Bench,
) -> None:
    bench.world.heads["head-3"].broken["stop"] = "etcd does not stop"
    done = bench.restore()
    assert "etcd does not stop" in str(done.exception)
    assert bench.world.states() == {NOW}
    assert not any("swap" in head.asked for head in heads(bench))


@pytest.mark.parametrize("silent", HEADS)
def test_a_control_host_that_does_not_answer_is_named_and_nothing_is_touched(
    silent: str, bench: Bench
) -> None:
    bench.world.down.add(silent)
    done = bench.restore()
    assert f"{silent} does not answer" in str(done.exception)
    assert "nothing was changed" in str(done.exception)
    assert getattr(done.exception, "hint", "") == "power it on"
    assert bench.world.untouched()


def test_where_most_control_hosts_do_not_answer_the_way_out_is_named(bench: Bench) -> None:
    bench.world.down.update(("head", "head-2"))
    hint = getattr(bench.restore().exception, "hint", "")
    file, _, heading = hint.partition("lost permanently: ")[2].partition(", ")
    assert f"\n## {heading}\n" in Path(file).read_text()


def test_the_last_of_three_control_hosts_is_a_cluster_of_its_own_with_what_it_had_last(
    bench: Bench,
) -> None:
    only_the_last_is_left(bench)
    saved = json.loads(bench.run("save", "--json").output)
    assert saved["host"] == "head-3"
    done = bench.restore(saved["name"])
    assert done.return_value == 0, done
    last = bench.world.heads["head-3"]
    assert "--initial-cluster=head-3=https://10.1.0.3:2380" in last.flags
    assert last.is_up
    assert last.state == NOW
    assert bench.world.refreshed == ["gpu-1"]
    assert not any(head.asked for head in heads(bench)[:2])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, f"no control host has a backup {NAME}"),
        (b"", "was cut off or changed"),
        (snapshot(THEN)[:-1], "was cut off or changed"),
        (snapshot(THEN).replace(b"then", b"thne"), "was cut off or changed"),
        (snapshot(b"state of ANOTHER-CLUSTER"), "is of another cluster"),
    ],
)
def test_a_backup_that_is_missing_damaged_or_of_another_cluster_is_refused(
    content: bytes | None, said: str, bench: Bench
) -> None:
    file = bench.world.heads["head-2"].backups / f"{NAME}.snapshot"
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    done = bench.restore()
    assert said in str(done.exception)
    assert bench.world.untouched()


def test_a_backup_whose_own_digest_says_otherwise_is_refused_and_a_good_one_elsewhere_taken(
    bench: Bench,
) -> None:
    (bench.world.heads["head-2"].backups / f"{NAME}.sha256").write_text("0  x\n")
    assert "not what its digest says" in str(bench.restore().exception)
    bench.world.heads["head-3"].backup(NAME, snapshot(THEN))
    assert bench.restore().return_value == 0
    assert bench.world.states() == {THEN}


def test_control_hosts_of_two_clusters_are_refused(bench: Bench) -> None:
    (bench.world.heads["head-3"].folder / "ca.crt").write_text("-\nA\nB\nC\n-\n")
    assert "belong to different clusters" in str(bench.restore().exception)
    assert bench.world.untouched()


def test_a_control_host_without_a_member_is_refused(bench: Bench) -> None:
    (bench.world.heads["head-3"].manifests / "etcd.yaml").unlink()
    done = bench.restore()
    assert "no member of etcd is here" in str(done.exception)
    assert bench.world.states() == {NOW}


def test_a_state_that_cannot_be_made_on_one_host_leaves_all_as_they_were(bench: Bench) -> None:
    bench.world.heads["head-3"].broken["prepare"] = "No space left on device"
    done = bench.restore()
    assert "No space left on device; nothing was changed" in str(done.exception)
    assert bench.world.untouched()
    bench.world.heads["head-3"].broken.clear()
    assert bench.restore().return_value == 0


@pytest.mark.parametrize("step", ["stop", "swap", "start", "ready", "finish"])
def test_a_host_that_dies_on_the_way_is_named_and_the_same_command_goes_on(
    step: str, bench: Bench
) -> None:
    bench.world.dies_at = ("head-2", step)
    failed = bench.restore().exception
    assert getattr(failed, "host", "") == "head-2"
    bench.world.dies_at = None
    again = bench.restore()
    assert "head-2 does not answer" in str(again.exception)
    bench.world.down.clear()
    other = bench.restore("20200101T000000Z")
    assert f"a restore of {NAME} is in progress" in str(other.exception)
    assert bench.restore().return_value == 0
    assert bench.world.states() == {THEN}
    assert all(head.is_up for head in heads(bench))
    identifiers = {json.loads(head.order.read_text())["id"] for head in heads(bench)}
    assert len(identifiers) == 1


@pytest.mark.parametrize("step", ["stop", "swap", "start", "ready"])
def test_a_restore_that_was_cut_off_can_be_taken_back(step: str, bench: Bench) -> None:
    bench.world.heads["head-2"].broken[step] = "it hangs"
    failed = bench.restore().exception
    assert "appliance etcd abandon" in getattr(failed, "hint", "")
    done = bench.run("abandon", "--yes")
    assert done.return_value == 0, done
    assert bench.world.untouched()
    assert "no restore is in progress" in str(bench.run("abandon", "--yes").exception)


def test_two_of_three_go_back_without_the_third_which_follows(bench: Bench) -> None:
    bench.world.dies_at = ("head-3", "swap")
    bench.restore()
    bench.world.dies_at = None
    assert bench.run("abandon", "--yes").return_value == 0
    assert {bench.world.heads[name].state for name in ("head", "head-2")} == {NOW}
    bench.world.down.clear()
    assert bench.run("abandon", "--yes").return_value == 0
    assert bench.world.untouched()


def test_one_of_three_alone_does_not_go_back(bench: Bench) -> None:
    bench.world.dies_at = ("head-3", "swap")
    bench.restore()
    bench.world.down.add("head-2")
    assert "a majority of etcd's members" in str(bench.run("abandon", "--yes").exception)
    assert not bench.world.heads["head"].is_up


def test_what_is_through_on_one_is_not_taken_back(bench: Bench) -> None:
    bench.world.heads["head-3"].broken["finish"] = "it hangs"
    bench.restore()
    assert "the restore is already finished on head, head-2" in str(
        bench.run("abandon", "--yes").exception
    )
    assert bench.world.states() == {THEN}


def test_a_member_that_lost_its_part_does_not_begin_anew_beside_the_others(bench: Bench) -> None:
    bench.world.heads["head-2"].broken["ready"] = "it hangs"
    bench.restore()
    bench.world.heads["head-3"].order.unlink()
    bench.world.heads["head-2"].broken.clear()
    assert "head-3 has lost the state of a restore" in str(bench.restore().exception)


def test_a_site_without_a_cluster_of_its_own_is_refused_before_a_host_is_asked(
    bench: Bench,
) -> None:
    bench.file.write_text(SITE)
    for argv in (("list",), ("save",), ("restore", NAME, "--yes"), ("abandon", "--yes")):
        refused = bench.run(*argv).exception
        assert getattr(refused, "exit_code", None) == 2, argv
    assert not any(head.asked for head in heads(bench))


def test_without_a_terminal_yes_is_needed(bench: Bench) -> None:
    assert "add --yes" in str(bench.run("restore", NAME).exception)
    assert not any(head.asked for head in heads(bench))


def test_list_tells_of_each_host_and_of_one_that_does_not_answer(bench: Bench) -> None:
    bench.world.down.add("head-3")
    done = bench.run("list", "--json")
    assert done.return_value == 1
    told = json.loads(done.output)["hosts"]
    assert told["head"] == {"error": "", "fix": "", "backups": []}
    assert [b["name"] for b in told["head-2"]["backups"]] == [NAME]
    assert told["head-3"] == {
        "error": "head-3 does not answer",
        "fix": "power it on",
        "backups": None,
    }
    assert NAME in bench.run("list").output


def test_the_first_member_that_answers_writes_a_backup(bench: Bench) -> None:
    bench.world.down.add("head")
    done = bench.run("save", "--json")
    found = json.loads(done.output)
    assert found["host"] == "head-2"
    assert (bench.world.heads["head-2"].backups / f"{found['name']}.snapshot").exists()
    bench.world.down.update(HEADS)
    assert "head does not answer" in str(bench.run("save").exception)


def test_a_host_with_older_programs_says_how_it_gets_newer_ones(bench: Bench) -> None:
    bench.world.heads["head"].broken["look"] = "command not found"
    assert getattr(bench.restore().exception, "hint", "") == "appliance deploy --stage kubernetes"


@pytest.mark.parametrize(
    ("version", "fits"), [("3.4.30", False), ("3.5.16", False), ("3.7.0", True)]
)
def test_a_tool_older_than_etcd_makes_no_state_for_it(
    version: str, fits: bool, bench: Bench
) -> None:
    bench.world.heads["head-3"].version = version
    done = bench.restore()
    assert (done.return_value == 0) is fits
    if not fits:
        assert "etcdutl 3.6" in str(done.exception)
        assert bench.world.untouched()
