"""The smallest workloads of the add-ons that distribute data over hosts. They use no GPU, because these add-ons promise none."""

from typing import Any

from appliance.acceptance.hello_parts import Hello, Resource, Where, pod, resource, state
from appliance.stages.scheduler.queues.namespaces import SPARK

JVM = {"cpu": "1", "memory": "896Mi"}
"""Memory that Spark requests for itself: the value below plus 384 MiB (spark.kubernetes, minimum overhead)."""
HEAP = {"cores": 1, "memory": "512m"}
DASK = {"cpu": "500m", "memory": "1Gi"}
DASK_SAYS = (
    "from dask.distributed import Client; client = Client(timeout=600); client.wait_for_workers(1); "
    "assert client.submit(sum, [40, 2]).result() == 42"
)
"""The job may be created before its scheduler, so it waits for it."""
DASK_PORTS = {"tcp-comm": 8786, "http-dashboard": 8787}
"""Names by which the operator finds them."""
SPARK_USER = 185
SPARK_PI = {
    "type": "Scala",
    "mode": "cluster",
    "mainClass": "org.apache.spark.examples.SparkPi",
    "mainApplicationFile": "local:///opt/spark/examples/jars/spark-examples.jar",
    "arguments": ["10"],
    "sparkVersion": "4.0.4",
}
"""Spark's own example, in Spark's own image."""


def _spark(where: Where) -> list[Resource]:
    """Scheduler and rights are in pod templates, which Spark copies; requests come from Spark's own fields."""
    key = "spark_operator"
    driver = pod(
        where,
        key,
        "spark",
        name="spark-kubernetes-driver",
        asked=JVM,
        user=SPARK_USER,
        account=SPARK,
    )
    executor = pod(
        where, key, "spark", name="spark-kubernetes-executor", asked=JVM, user=SPARK_USER
    )
    cpu = where.enough(JVM["cpu"])
    size = {**HEAP, "coreRequest": cpu, "coreLimit": cpu}
    spec = {
        **SPARK_PI,
        "image": where.images["spark"],
        "restartPolicy": {"type": "Never"},
        "driver": {**size, "serviceAccount": SPARK, "template": driver},
        "executor": {**size, "instances": 1, "template": executor},
    }
    return [resource(where, key, "sparkoperator.k8s.io/v1beta2", "SparkApplication", spec=spec)]


def _dask(where: Where) -> list[Resource]:
    """Each part has its own Deployment or pod; the operator passes the scheduler's address to workers and job."""
    key = "dask_operator"
    served = {
        "ports": [{"name": name, "containerPort": port} for name, port in DASK_PORTS.items()],
        "readinessProbe": {"httpGet": {"port": "http-dashboard", "path": "/health"}},
    }
    job = _dask_pod(where, "job", ["python", "-c", DASK_SAYS], "Never")
    scheduler = _dask_pod(where, "scheduler", ["dask", "scheduler"], "Always", **served)
    worker = _dask_pod(
        where, "worker", ["dask", "worker", "--name", "$(DASK_WORKER_NAME)"], "Always"
    )
    service = {
        "type": "ClusterIP",
        "selector": {
            "dask.org/cluster-name": resource(where, key, "", "")["metadata"]["name"],
            "dask.org/component": "scheduler",
        },
        "ports": [{"name": n, "port": p, "targetPort": n} for n, p in DASK_PORTS.items()],
    }
    cluster = {"worker": {"replicas": 1, **worker}, "scheduler": {"service": service, **scheduler}}
    spec = {"job": job, "cluster": {"spec": cluster}}
    return [resource(where, key, "kubernetes.dask.org/v1", "DaskJob", spec=spec)]


def _dask_pod(
    where: Where, name: str, command: list[str], restart: str, **container: Any
) -> Resource:
    return pod(
        where,
        "dask_operator",
        "dask",
        name=name,
        command=command,
        asked=DASK,
        restart=restart,
        env=[{"name": "HOME", "value": "/tmp"}],
        **container,
    )


HELLOS: tuple[Hello, ...] = (
    Hello(
        "spark_operator",
        "A Spark application with its driver and an executor",
        _spark,
        state("applicationState.state", "COMPLETED", "FAILED", "SUBMISSION_FAILED"),
        image="spark",
    ),
    Hello(
        "dask_operator",
        "A Dask job on its own cluster",
        _dask,
        state("jobStatus", "Successful", "Failed"),
        image="dask",
        needs="it must have Dask's distributed, as ghcr.io/dask/dask:2026.7.1",
    ),
)
