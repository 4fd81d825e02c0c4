"""Job files of GPU trainings: a batch script for Slurm with Pyxis and a TrainJob for Kubernetes, with the same configuration."""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from appliance.benchmarks.gpt3.reference import Gpt, load
from appliance.config import document
from appliance.models.base import Model
from appliance.text import plural

FILE = Path(__file__).with_name("launch.yml")
STEPS = 50
"""Enough for every counting rule. A 5B step on one DGX A100 takes 86 s, so this takes 72 minutes."""
MINUTES = 120
GPUS = 8
PORT = 29500
API = "trainer.kubeflow.org/v1alpha1"
STEP = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
QUEUE_LABEL = "kai.scheduler/queue"
FABRIC = "rdma/fabric"
PLATFORM = {"slurm": "bare-metal", "kubernetes": "kubernetes"}


class Recipe(Model):
    """Training parameters of one model: learning rates, and ``bucket_mib`` of the gradient buckets, in MiB."""

    micro_batch: int
    tensor_parallel: int
    pipeline_parallel: int
    learning_rate: float
    least_rate: float
    warm_up: int
    constant: int
    deviation: float
    bucket_mib: int


class Launch(Model):
    """The content of launch.yml."""

    version: Literal[1]
    image: str
    image_source: str
    script: str
    environment: dict[str, str]
    source: str
    models: dict[str, Recipe]


@dataclass(frozen=True)
class Training:
    """One training: a model on a number of hosts; ``image`` in the notation of registries, ``queue`` of KAI."""

    model: str
    nodes: int
    image: str
    queue: str

    @property
    def name(self) -> str:
        """Name of the job."""
        return f"gpt3-{self.model}-{self.nodes}n"


@cache
def launch() -> Launch:
    """Returns the configuration that is included in the program."""
    return Launch.model_validate(document.read(FILE).data)


def arguments(training: Training) -> tuple[str, ...]:
    """Arguments of NeMo's pretraining script: the published configuration, with tokens that it generates."""
    gpt, recipe = load().models[training.model], launch().models[training.model]
    return (
        *_trainer(training),
        *_model(gpt, recipe),
        *_optimizer(recipe),
        *("model.data.data_impl=mock", "model.data.data_prefix=[]"),
        f"model.data.seq_length={gpt.sequence}",
    )


def divides(model: str, nodes: int, gpus: int = GPUS) -> bool:
    """Whether the published global batch gives each of the ``gpus`` on so many hosts whole micro-batches."""
    recipe = launch().models[model]
    replicas, odd = divmod(nodes * gpus, recipe.tensor_parallel * recipe.pipeline_parallel)
    return not odd and load().models[model].global_batch % (recipe.micro_batch * replicas) == 0


def files(
    models: Sequence[str], nodes: Sequence[int], through: Sequence[str], image: str, queue: str
) -> dict[str, str]:
    """Returns relative path -> content of every job file; the path assigns its log to the run."""
    made: dict[str, str] = {}
    for model in models:
        for count in nodes:
            training = Training(model, count, image or launch().image, queue)
            for way in through:
                kind, content = ("sbatch", slurm) if way == "slurm" else ("json", kubernetes)
                made[f"{model}/{PLATFORM[way]}/{count}n.{kind}"] = content(training)
    return made


def slurm(training: Training) -> str:
    """Returns a batch script: one task per GPU in the container. It writes the log to its path in the layout."""
    log = f"{training.model}/bare-metal/{training.nodes}n.log"
    exports = "\n".join(f"export {k}={v}" for k, v in launch().environment.items())
    image = training.image.replace("/", "#", 1)
    command = shlex.join(["python3", "-u", launch().script, *arguments(training)])
    return f"""#!/bin/bash
# {training.model} on {plural(training.nodes, "host")}. Submit in the folder that holds {training.model}/: sbatch {log.removesuffix(".log")}.sbatch
# Configuration: {launch().source}. Tokens are synthetic.
#SBATCH --job-name={training.name}
#SBATCH --nodes={training.nodes}
#SBATCH --ntasks-per-node={GPUS}
#SBATCH --gpus-per-node={GPUS}
#SBATCH --exclusive
#SBATCH --time={MINUTES}
#SBATCH --output={log}
#SBATCH --open-mode=truncate
set -euo pipefail
{exports}
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT={PORT}
exec srun --kill-on-bad-exit=1 --container-image={image} {command}
"""


def kubernetes(training: Training) -> str:
    """Returns a TrainingRuntime and its TrainJob as a List for kubectl: one pod with eight GPUs per host, all or none."""
    named = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": training.name}
    node = {
        "name": "node",
        "template": {
            "metadata": {"labels": STEP},
            "spec": {"backoffLimit": 0, "template": _pod(training)},
        },
    }
    runtime = {
        "mlPolicy": {"numNodes": training.nodes, "torch": {"numProcPerNode": GPUS}},
        "template": {"spec": {"replicatedJobs": [node]}},
    }
    items = [
        _resource("TrainingRuntime", training, runtime),
        _resource(
            "TrainJob", training, {"runtimeRef": named, "trainer": {"numNodes": training.nodes}}
        ),
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1) + "\n"


def _resource(kind: str, training: Training, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": training.name, "labels": {QUEUE_LABEL: training.queue}}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}


def _pod(training: Training) -> dict[str, Any]:
    environment = [{"name": k, "value": v} for k, v in launch().environment.items()]
    # A pod without a memory request gets a small part of its host's memory. A host with eight such GPUs has at least 960 GiB.
    asked = {"nvidia.com/gpu": GPUS, FABRIC: 1, "memory": "640Gi"}
    container = {
        "name": "node",
        "image": training.image,
        # The trainer's PET_* variables give torchrun the hosts, rank and address.
        "command": ["torchrun", launch().script, *arguments(training)],
        "env": environment,
        "resources": {"requests": asked, "limits": asked},
        # RDMA locks registered memory.
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    return {
        "metadata": {"labels": {QUEUE_LABEL: training.queue}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "restartPolicy": "Never",
            "activeDeadlineSeconds": MINUTES * 60,
            "containers": [container],
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "256Gi"}}],
        },
    }


def _trainer(training: Training) -> Iterator[str]:
    yield from (f"trainer.num_nodes={training.nodes}", f"trainer.devices={GPUS}")
    yield from ("trainer.precision=bf16", f"trainer.max_steps={STEPS}")
    yield from (f"trainer.val_check_interval={STEPS}", "trainer.limit_val_batches=0")
    yield from ("trainer.log_every_n_steps=1", "trainer.gradient_clip_val=1.0")
    yield from (
        "exp_manager.create_checkpoint_callback=False",
        "exp_manager.resume_if_exists=False",
    )
    yield from (
        "++exp_manager.log_step_timing=True",
        "++exp_manager.step_timing_kwargs.sync_cuda=True",
    )
    yield "++exp_manager.step_timing_kwargs.buffer_size=5"


def _model(gpt: Gpt, recipe: Recipe) -> Iterator[str]:
    values = {
        "micro_batch_size": recipe.micro_batch,
        "global_batch_size": gpt.global_batch,
        "tensor_model_parallel_size": recipe.tensor_parallel,
        "pipeline_model_parallel_size": recipe.pipeline_parallel,
        "encoder_seq_length": gpt.sequence,
        "max_position_embeddings": gpt.sequence,
        "num_layers": gpt.layers,
        "hidden_size": gpt.hidden,
        "ffn_hidden_size": gpt.ffn,
        "num_attention_heads": gpt.heads,
        "init_method_std": recipe.deviation,
        "megatron_amp_O2": True,
        "mcore_gpt": True,
    }
    for key, value in values.items():
        yield f"++model.{key}={value}"


def _optimizer(recipe: Recipe) -> Iterator[str]:
    yield from ("model.optim.name=distributed_fused_adam", "model.optim.weight_decay=0.1")
    yield from (f"model.optim.lr={recipe.learning_rate:f}", "model.optim.betas=[0.9,0.95]")
    yield f"++model.optim.bucket_cap_mb={recipe.bucket_mib}"
    yield from (f"++model.optim.sched.warmup_steps={recipe.warm_up}",)
    yield from (f"++model.optim.sched.constant_steps={recipe.constant}",)
    yield f"++model.optim.sched.min_lr={recipe.least_rate:f}"
