"""A training of the small model through Kubernetes: a rank on each host, over the network of pods."""

from appliance.adapters.pods import KILLED, PodRemote, Rank
from appliance.adapters.process import Completed
from appliance.benchmarks.gpt3.launch import PORT
from appliance.benchmarks.gpt3.trial import SCRIPT, Trial, small
from appliance.text import one_line, shortened


def in_pods(remote: PodRemote, trial: Trial) -> Completed:
    """The training's end, as of one program: the last rank speaks for all, and of those that failed the one to blame.

    Raises ConnectionFailed where a host is not given, or DeadlineExceeded.
    """
    argv = small("-c", SCRIPT.read_text(encoding="utf-8"))
    ranks = remote.gang(trial.hosts, argv, trial.deadline, PORT)
    failed = [(number, rank) for number, rank in enumerate(ranks) if rank.code]
    if not failed:
        return Completed(argv, 0, ranks[-1].said, "")
    number, rank = min(failed, key=_blame)
    return Completed(argv, rank.code or 1, rank.said, f"rank {number} on {rank.host}: {_how(rank)}")


def _blame(failed: tuple[int, Rank]) -> bool:
    """A rank that was killed before those that fail because a peer is gone."""
    return (failed[1].code or 0) <= KILLED


def _how(rank: Rank) -> str:
    code = rank.code or 0
    if code > KILLED:
        return f"ended by signal {code - KILLED}"
    said = rank.said.strip().splitlines()
    return shortened(one_line(said[-1]), 300) if said else "it said nothing"
