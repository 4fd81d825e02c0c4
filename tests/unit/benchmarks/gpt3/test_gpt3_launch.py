"""Job files of the GPU trainings: one configuration for both platforms, whole hosts, and the path their log is read by."""

import json
import subprocess  # noqa: TID251  bash is the judge of a batch script
from pathlib import Path

import pytest
from click.testing import CliRunner

from appliance.benchmarks.gpt3 import launch
from appliance.benchmarks.gpt3.described import described
from appliance.benchmarks.gpt3.reference import load
from appliance.cli.main import cli

ALL = launch.files(["126m", "5b"], [1, 2, 4], ["slurm", "kubernetes"], "", "team-a")
TRAINING = launch.Training("5b", 2, "registry.example/nemo:1", "team-a")


def test_every_cell_has_its_file_where_its_log_is_read(tmp_path: Path) -> None:
    cells = load().appliance.cells
    stems = {f"{c.model}/{c.platform}/{c.nodes}n" for c in cells}
    assert {path.rpartition(".")[0] for path in ALL} == stems
    for stem in stems:
        (tmp_path / stem).parent.mkdir(parents=True, exist_ok=True)
        for ending in ("log", "log.bak", "sbatch", "json"):
            (tmp_path / f"{stem}.{ending}").write_text("")
    # Job files and copies beside a log are no second run of it.
    found = described(tmp_path, load(), None).runs
    assert sorted((r.model, r.platform, r.nodes) for r in found) == sorted(
        (c.model, c.platform, c.nodes) for c in cells
    )


def test_both_platforms_train_the_same_published_configuration() -> None:
    said = launch.arguments(TRAINING)
    gpt = load().models["5b"]
    assert {
        f"++model.global_batch_size={gpt.global_batch}",
        f"++model.num_layers={gpt.layers}",
        f"++model.hidden_size={gpt.hidden}",
        "++model.micro_batch_size=4",
        "model.optim.lr=0.000160",
        "model.data.data_impl=mock",
        "trainer.num_nodes=2",
        "trainer.devices=8",
    } <= set(said)
    script = launch.slurm(TRAINING)
    job = json.loads(launch.kubernetes(TRAINING))
    pod = job["items"][0]["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]
    command = pod["template"]["spec"]["containers"][0]["command"]
    assert tuple(command[2:]) == said
    assert all(word in script for word in said if "[" not in word)


def test_a_batch_script_is_sound_bash_with_whole_hosts(tmp_path: Path) -> None:
    for path, content in ALL.items():
        if path.endswith(".sbatch"):
            subprocess.run(["bash", "-n"], input=content.encode(), check=True, timeout=20)
    script = launch.slurm(TRAINING)
    assert "#SBATCH --gpus-per-node=8" in script
    assert "#SBATCH --nodes=2" in script
    assert "--container-image=registry.example#nemo:1" in script


def test_a_trainjob_asks_for_whole_hosts_the_fabric_and_one_queue() -> None:
    runtime, job = json.loads(launch.kubernetes(TRAINING))["items"]
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    assert runtime["spec"]["mlPolicy"] == {"numNodes": 2, "torch": {"numProcPerNode": 8}}
    node = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]
    pod = node["spec"]["template"]
    asked = pod["spec"]["containers"][0]["resources"]
    devices = {"nvidia.com/gpu": 8, "rdma/fabric": 1}
    assert asked["limits"] == asked["requests"] == {**devices, "memory": "640Gi"}
    assert pod["spec"]["volumes"][0]["emptyDir"]["sizeLimit"] == "256Gi"
    assert pod["metadata"]["labels"] == {"kai.scheduler/queue": "team-a"}
    assert pod["spec"]["schedulerName"] == "kai-scheduler"
    assert node["spec"]["backoffLimit"] == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--nodes", "0"], "write numbers such as 1,2,4"),
        (["--nodes", "3"], "is not divisible by 3 hosts"),
        (["--through", "ssh"], "write slurm, kubernetes, or slurm,kubernetes"),
        (["--queue", "a b"], "--queue is not a valid name"),
        (["--model", "7b"], "unknown model: 7b"),
        (["--container-image", "a b"], "write it as"),
    ],
)
def test_bad_words_write_nothing(words: list[str], told: str, tmp_path: Path) -> None:
    into = tmp_path / "jobs"
    done = CliRunner().invoke(cli, ["validate", "gpt3", "--render", str(into), *words])
    said = f"{done.output} {done.exception}"
    assert done.exit_code
    assert told in said
    assert not into.exists()


def test_options_of_rendering_go_with_it_alone() -> None:
    done = CliRunner().invoke(cli, ["validate", "gpt3", "--queue", "team-a"])
    assert done.exit_code == 2
    assert "--queue needs --through kubernetes" in done.output
