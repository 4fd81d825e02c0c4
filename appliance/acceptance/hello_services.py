"""The smallest workloads of the add-ons that serve pods."""

import json

from appliance.acceptance.hello_parts import Hello, Resource, Where, condition, job, pod, resource
from appliance.stages.workloads.notebooks import ADDRESS
from appliance.stages.workloads.values import MLFLOW_ADDRESS

CLIENT = {"cpu": "500m", "memory": "1Gi"}
MLFLOW_SAYS = f"""
import mlflow
mlflow.set_tracking_uri("{MLFLOW_ADDRESS}")
mlflow.set_experiment("appliance-hello")
with mlflow.start_run() as run:
    mlflow.log_metric("answer", 42)
    mlflow.log_text("hello", "hello.txt")
kept = mlflow.get_run(run.info.run_id)
assert kept.data.metrics["answer"] == 42, kept
assert mlflow.artifacts.load_text(f"{{kept.info.artifact_uri}}/hello.txt") == "hello"
mlflow.delete_run(run.info.run_id)
"""
"""Stores a metric and a file and reads them back, the file through the server, too."""


NOTEBOOK_SAYS = f"""
import urllib.request
from nbclient import NotebookClient
from nbformat import v4
urllib.request.urlopen("{ADDRESS}/hub/health", timeout=60)
book = v4.new_notebook(cells=[v4.new_code_cell("print(6 * 7)")])
done = NotebookClient(book, timeout=300, kernel_name="python3").execute()
assert done.cells[0].outputs[0].text == "42\\n", done
"""


def _mlflow(where: Where) -> list[Resource]:
    return _python(where, "mlflow", "mlflow", MLFLOW_SAYS)


def _jupyter(where: Where) -> list[Resource]:
    """Runs in the notebooks' own image. It does not test that the hub starts one, which would need a user's login."""
    return _python(where, "jupyter", "notebook", NOTEBOOK_SAYS)


def _python(where: Where, key: str, image: str, says: str) -> list[Resource]:
    """A job of one script."""
    command, home = ["python", "-c", says], [{"name": "HOME", "value": "/tmp"}]
    template = pod(where, key, image, command=command, asked=CLIENT, env=home)
    return [resource(where, key, "batch/v1", "Job", spec=job(template))]


def _vllm(where: Where) -> list[Resource]:
    """One token of the model, through the same API that its users have."""
    asked = json.dumps({"model": where.model, "prompt": "hello", "max_tokens": 1})
    ask = "wget -q -O - --header 'Content-Type: application/json' --post-data"
    listed = f"wget -q -O - {where.address}/models | grep -q '\"{where.model}\"'"
    said = f"{ask} '{asked}' {where.address}/completions | grep -q '\"choices\"'"
    template = pod(where, "vllm", "plain", command=["sh", "-c", f"{listed} && {said}"])
    return [resource(where, "vllm", "batch/v1", "Job", spec=job(template))]


HELLOS: tuple[Hello, ...] = (
    Hello(
        "mlflow",
        "A run is tracked with a metric and a file",
        _mlflow,
        condition("Complete", "Failed"),
        image="mlflow",
    ),
    Hello(
        "jupyter",
        "The hub answers, and a notebook is run from start to end",
        _jupyter,
        condition("Complete", "Failed"),
        image="notebook",
    ),
    Hello("vllm", "A served model answers", _vllm, condition("Complete", "Failed")),
)
