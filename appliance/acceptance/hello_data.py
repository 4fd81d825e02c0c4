"""The smallest piece of work of the add-ons that spread data over hosts. On processors alone: GPUs are not their promise."""

from appliance.acceptance.hello_parts import Hello, Resource, Where, pod, resource, state
from appliance.config.queues.namespaces import SPARK

JVM = {"cpu": "1", "memory": "896Mi"}
"""What Spark asks for itself: its memory below and 384 MiB beside it (spark.kubernetes, minimum overhead)."""
HEAP = {"cores": 1, "coreLimit": "1", "memory": "512m"}
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
    """Scheduler and rights stand in pods' templates, which Spark takes over; requests it makes from its own fields."""
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
    spec = {
        **SPARK_PI,
        "image": where.images["spark"],
        "restartPolicy": {"type": "Never"},
        "driver": {**HEAP, "serviceAccount": SPARK, "template": driver},
        "executor": {**HEAP, "instances": 1, "template": executor},
    }
    return [resource(where, key, "sparkoperator.k8s.io/v1beta2", "SparkApplication", spec=spec)]


HELLOS: tuple[Hello, ...] = (
    Hello(
        "spark_operator",
        "A Spark application with its driver and an executor",
        _spark,
        state("applicationState.state", "COMPLETED", "FAILED", "SUBMISSION_FAILED"),
    ),
)
