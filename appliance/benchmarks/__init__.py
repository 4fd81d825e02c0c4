"""Measured workloads: the list of all benchmarks, in the order they run, and of those that a deployment runs."""

from importlib import import_module
from typing import Any

from appliance.adapters.remote import Remote
from appliance.benchmarks.benchmark import Benchmark, Outcome, Workload
from appliance.benchmarks.burnin import gates as burnin
from appliance.benchmarks.dcgm import gates as dcgm
from appliance.benchmarks.fio import gates as fio
from appliance.benchmarks.gemm import gates as gemm
from appliance.benchmarks.gpt3 import gates as gpt3
from appliance.benchmarks.hpcc import gates as hpcc
from appliance.benchmarks.model_load import gates as model_load
from appliance.benchmarks.nccl import gates as nccl
from appliance.benchmarks.nvbandwidth import gates as nvbandwidth
from appliance.benchmarks.perftest import gates as perftest
from appliance.benchmarks.project_queue import POD, has_queue
from appliance.benchmarks.serving import gates as serving
from appliance.checks.check import View
from appliance.models.bound import Bound
from appliance.models.site import Site
from appliance.stages.stage import always


def _has_slurm(site: Site) -> bool:
    return site.slurm is not None


def _run_of(module: str) -> Workload:
    """Imports ``run`` of a module below only when it is called: judging health does not need the code that measures."""

    def work(view: View, remote: Remote, *request: Any, **more: Any) -> Outcome:
        done: Outcome = import_module(f"{__name__}.{module}").run(view, remote, *request, **more)
        return done

    return work


BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark(
        name="storage",
        deploys=always,
        title="Every host reads the files that the others wrote",
        checks=("storage.roundtrip",),
        run=_run_of("storage_roundtrip"),
        minutes=0.3,
        explain="Every host writes a file through the shared storage, every other host reads it and compares the digest; "
        "64 MiB each way give MB/s. A host that cannot read what another wrote has a wrong mount, export or firewall.",
        of_class=False,
    ),
    Benchmark(
        name="slurm",
        deploys=_has_slurm,
        title="One GPU job over all hosts",
        checks=("slurm.job", "slurm.job_accounting"),
        run=_run_of("slurm_job"),
        minutes=0.2,
        explain="srun starts one task on every GPU host with all of its GPUs; each must answer once and see every GPU. "
        "Then accounting must know the job. A host missing here is down, drained or lacks GPU device files.",
        of_class=False,
    ),
    Benchmark(
        name="queue",
        deploys=has_queue,
        title="One GPU pod through a queue of a project",
        checks=(POD,),
        run=_run_of("queue_pod"),
        minutes=0.2,
        explain="A pod that requests one GPU is created in the namespace of the first project, through its first queue of "
        "the default pool. The scheduler must bind it to a host, and it must see one GPU. If it gets no host within a "
        "minute, the GPUs are in use, or the queue has none.",
        through_queue=True,
        of_class=False,
    ),
    Benchmark(
        name="alerts",
        title="A test alert to each receiver of the site",
        checks=("alerts.delivery",),
        run=_run_of("alerts.run"),
        minutes=0.2,
        explain="Alertmanager gets one alert for each of observe.receivers, and reports whether the other side accepted "
        "it. Later delivery of a mail is visible only in the mailbox: the message contains the site and the time.",
        holds=False,
        of_class=False,
    ),
    Benchmark(
        name="gpt3",
        deploys=_has_slurm,
        title="GPT-3 training throughput",
        checks=("gpt3.loss", "gpt3.throughput", "gpt3.scaling"),
        run=_run_of("gpt3.run"),
        minutes=1.0,
        explain="Tokens per second = global batch x sequence ÷ step time, on 1, 2, 4 ... hosts, against published cells. "
        "On CPUs it tests only launch, rendezvous and log reading. Without options a site with queues trains through Slurm and "
        "through a queue of Kubernetes, and compares them. See docs/gpt3.md.",
        through_queue=True,
        bounds={"gpt3.throughput": Bound("%", least=0, below=100)},
        gates=gpt3.gates,
        submits=True,
    ),
    Benchmark(
        name="dcgm",
        title="DCGM's diagnostics of every GPU",
        checks=dcgm.CHECKS,
        run=_run_of("dcgm.run"),
        minutes=3.0,
        explain="dcgmi diag, NVIDIA's own tests of memory, PCIe, compute and power with NVIDIA's limits by product: level 1 takes "
        "seconds, 2 two minutes, 3 a quarter of an hour, 4 hours. Skipped and unknown tests never count as passed.",
        bounds=dcgm.BOUNDS,
        gates=dcgm.gates,
        submits=True,
    ),
    Benchmark(
        name="nvbandwidth",
        title="Copies between each GPU, its host and its peers",
        checks=nvbandwidth.CHECKS,
        run=_run_of("nvbandwidth.run"),
        minutes=5.0,
        explain="nvbandwidth copies between each GPU and its host's memory, both ways, and between every two GPUs. It "
        "lists GPUs in slots with fewer lanes, lost NVLinks and bridges that separate GPUs. A result above the link's "
        "maximum is an error.",
        bounds=nvbandwidth.BOUNDS,
        gates=nvbandwidth.gates,
        submits=True,
    ),
    Benchmark(
        name="gemm",
        title="Matrix products and memory of each GPU by itself",
        checks=gemm.CHECKS,
        run=_run_of("gemm.run"),
        minutes=8.0,
        explain="PyTorch of the host multiplies square matrices of several sizes and types on each GPU, and copies through "
        "its memory: warm, the best of the sweep, every value checked. A GPU with wrong results, or slower than GPUs of the "
        "same model, is listed by index and UUID.",
        bounds=gemm.BOUNDS,
        gates=gemm.gates,
        submits=True,
    ),
    Benchmark(
        name="nccl",
        title="Collectives in a host and between hosts",
        checks=nccl.CHECKS,
        run=_run_of("nccl.run"),
        minutes=10.0,
        explain="nccl-tests: all_reduce over the GPUs of each host, over the host's own fabric with NVLink off, over "
        "groups that isolate a slow host or path, and over 2, 4 ... all hosts. Only large messages count; wrong values always fail.",
        bounds=nccl.BOUNDS,
        gates=nccl.gates,
        between=True,
        submits=True,
    ),
    Benchmark(
        name="perftest",
        title="Every rail of pairs of hosts",
        checks=perftest.CHECKS,
        run=_run_of("perftest.run"),
        minutes=8.0,
        explain="ib_write_bw and ib_write_lat over each port of pairs of hosts, from host and GPU memory. A port that is "
        "slow with every good host is listed. If only one path between two good ports is slow, check its cable and switch "
        "ports.",
        bounds=perftest.BOUNDS,
        gates=perftest.gates,
        between=True,
        submits=True,
    ),
    Benchmark(
        name="fio",
        title="Scratch and shared storage: bandwidth and small files",
        checks=fio.CHECKS,
        run=_run_of("fio.run"),
        minutes=5.0,
        explain="fio writes and reads 1 MiB blocks in sequence and 4 KiB blocks at random, past the page cache, and makes "
        "many small files: on the scratch of each host, then on shared storage from 1, 2, 4 ... all hosts at once. A host "
        "that is slower than equal hosts has a worn disk, a wrong mount or a slow link. See docs/benchmarking.md.",
        bounds=fio.BOUNDS,
        gates=fio.gates,
        submits=True,
    ),
    Benchmark(
        name="hpcc",
        title="STREAM and HPL on the processors of each host",
        checks=hpcc.CHECKS,
        run=_run_of("hpcc.run"),
        minutes=30.0,
        explain="HPC Challenge, one rank per core within each host: memory bandwidth (STREAM triad of all ranks) and HPL, whose solution "
        "is checked. A host that is slower than equal ones lacks a memory module, runs hot, or does other work.",
        bounds=hpcc.BOUNDS,
        gates=hpcc.gates,
        submits=True,
    ),
    Benchmark(
        name="model-load",
        title="Model weights from storage into memory",
        checks=("model_load.tensors", "model_load.speedup", "model_load.share"),
        run=_run_of("model_load.run"),
        minutes=30.0,
        explain="A model file of Llama-3-8B's shape is loaded from a cold cache by Run:ai Model Streamer, safetensors and "
        "tensorizer, and set against the rate at which the storage is read by itself. See docs/model-load.md.",
        bounds={
            "model_load.speedup": Bound("times as fast", above=0),
            "model_load.share": Bound("%", above=0, most=100),
        },
        gates=model_load.gates,
    ),
    Benchmark(
        name="serving",
        title="Answers of a served model by request rate",
        checks=serving.CHECKS,
        run=_run_of("serving.run"),
        minutes=5.0,
        explain="An OpenAI-compatible server gets requests at rising rates: time to the first token, time per token, "
        "throughput, errors, and the highest sustained rate. Contradictory answers do not count. See docs/serving.md.",
        bounds=serving.BOUNDS,
        gates=serving.gates,
        holds=False,
        of_class=False,
    ),
    Benchmark(
        name="burnin",
        title="Hours under load: heat, power, clocks, errors",
        checks=burnin.CHECKS,
        run=_run_of("burnin.run"),
        minutes=float(burnin.MINUTES),
        timed=burnin.DONE,
        explain="A job multiplies on all GPUs and exchanges between all hosts at once, for eight hours or --minutes, while heat, power, "
        "clocks, memory errors and Xids are sampled on each host. It continues when this program ends; the same command "
        "waits for it again and judges it.",
        bounds=burnin.BOUNDS,
        gates=burnin.gates,
        between=True,
    ),
)


def of_deployment(site: Site) -> tuple[Benchmark, ...]:
    """Those that a deployment of ``site`` runs."""
    return tuple(benchmark for benchmark in BENCHMARKS if benchmark.deploys(site))
