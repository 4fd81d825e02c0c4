"""Trains through Kubernetes over the pod network: the small model with one rank per host, a GPU model by torchrun in its container."""

from appliance.adapters.pods import KILLED, PodRemote, PodWork, Rank
from appliance.adapters.process import Completed
from appliance.benchmarks.gpt3.launch import GPUS, PORT, Training, arguments, launch
from appliance.benchmarks.gpt3.trial import SCRIPT, Trial, named_by_others, small
from appliance.text import one_line, shortened

# adapters/pods.py gives a pod its rank and the address of the first one.
TORCHRUN = (
    'exec torchrun --nnodes="$WORLD_SIZE" --node_rank="$RANK" --master_addr="$MASTER_ADDR" '
    f'--master_port="$MASTER_PORT" --nproc_per_node={GPUS} "$@"'
)


def in_pods(remote: PodRemote, trial: Trial) -> Completed:
    """Returns the end of the training as that of one program: the output of one rank, and of the failed ranks the cause.

    Raises ConnectionFailed if a host is not available, OtherGpus, or DeadlineExceeded.
    """
    work = work_of(trial)
    ranks = remote.gang(trial.hosts, work, PORT)
    failed = [(number, rank) for number, rank in enumerate(ranks) if rank.code]
    if not failed:
        # NeMo's first rank prints its steps; the small model's last rank does.
        speaker = ranks[0] if trial.on_gpus else ranks[-1]
        return Completed(tuple(work.argv), 0, speaker.said, "")
    number, rank = min(failed, key=_blame)
    words = (named_by_others(one.said, trial.hosts) for _, one in failed)
    named = next(filter(None, words), "")
    told = f"rank {number} on {rank.host}: {_how(rank)}"
    if named and not _killed(rank):
        told = named
    return Completed(tuple(work.argv), rank.code or 1, rank.said, told)


def work_of(trial: Trial) -> PodWork:
    """The program of each pod."""
    if not trial.on_gpus:
        return PodWork(small("-c", SCRIPT.read_text(encoding="utf-8")), trial.deadline)
    words = (launch().script, *arguments(Training(trial.model, trial.nodes, "", "")))
    image = trial.container.image.replace("#", "/", 1) if trial.container else ""
    argv = ("sh", "-c", TORCHRUN, "torchrun", *words)
    return PodWork(argv, trial.deadline, image, launch().environment)


def _killed(rank: Rank) -> bool:
    return (rank.code or 0) > KILLED


def _blame(failed: tuple[int, Rank]) -> bool:
    """A killed rank has precedence over ranks that fail because a peer ended."""
    return not _killed(failed[1])


def _how(rank: Rank) -> str:
    code = rank.code or 0
    if code > KILLED:
        return f"ended by signal {code - KILLED}"
    said = rank.said.strip().splitlines()
    return shortened(one_line(said[-1]), 300) if said else "it printed nothing"
