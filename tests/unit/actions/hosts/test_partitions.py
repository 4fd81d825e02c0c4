"""Slurm's partitions and pending jobs, as its commands print them."""

from datetime import UTC, datetime

from appliance.actions.hosts.partitions import Partition, read

NOW = datetime.fromtimestamp(10_000, UTC)


def test_partitions_count_their_hosts_by_state() -> None:
    found = read("batch|up|3|idle\nbatch|up|1|drained*\ndebug|inact|0|n/a\nnonsense\n", "", NOW)
    assert found.partitions == (
        Partition("batch", "up", (("idle", 3), ("drained*", 1))),
        Partition("debug", "inact", (("n/a", 0),)),
    )
    assert found.pending == ()


def test_pending_jobs_are_told_longest_first_with_reason_and_remedy() -> None:
    lines = (
        "7|ada|batch|2|gres/gpu:8|9400|(Resources)|a|b",
        "8_[1-4]|bob|batch|1|N/A|4000|JobHeldUser|x",
        "9|eve|debug|1|N/A|20000|SomethingNew|y",
        "slurm_load_jobs error: Unable to contact slurm controller",
    )
    jobs = read("", "\n".join(lines), NOW).pending
    assert [(j.id, j.waits_s) for j in jobs] == [("8_[1-4]", 6000.0), ("7", 600.0), ("9", 0.0)]
    held, waits, new = jobs
    assert (held.cause, held.fix) == ("its user holds it (JobHeldUser)", "scontrol release 8_[1-4]")
    assert (waits.wants, waits.name, waits.fix) == ("2 x gpu:8", "a|b", "")
    assert waits.cause == "no free hosts or GPUs as requested (Resources)"
    assert (new.cause, new.wants) == ("SomethingNew", "1 x host")


def test_a_number_without_an_end_is_a_line_of_another_form() -> None:
    digits = "9" * 5000
    found = read(f"gpu|up|{digits}|idle", f"1|bob|gpu|1|N/A|{digits}|Priority|a", NOW)
    assert not found.partitions
    assert not found.pending
