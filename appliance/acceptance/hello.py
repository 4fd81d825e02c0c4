"""The smallest workload of each add-on: through a project's queue, within pod security standard restricted."""

from appliance.acceptance import hello_data, hello_network, hello_services
from appliance.acceptance.hello_parts import (
    Hello,
    Resource,
    Where,
    condition,
    job,
    pod,
    resource,
    state,
)

RAY = {"cpu": "1", "memory": "2Gi"}
SAY = ["sh", "-c", "echo hello from $(hostname)"]
MPI_SSH = "/home/mpiuser/.ssh"
"""Path at which the sample image of the MPI Operator looks for keys; its user is 1000."""
RAY_SAYS = "import ray; ray.init(); assert ray.get(ray.remote(lambda: 42).remote()) == 42"


def _volume(where: Where) -> list[Resource]:
    key = "nfs_csi"
    claim = resource(
        where,
        key,
        "v1",
        "PersistentVolumeClaim",
        spec={
            "accessModes": ["ReadWriteMany"],
            "storageClassName": where.storage_class,
            "resources": {"requests": {"storage": "1Mi"}},
        },
    )
    command = ["sh", "-c", "echo hello > /data/hello && grep -q hello /data/hello"]
    mounts = [{"name": "data", "mountPath": "/data"}]
    template = pod(where, key, "plain", command=command, volumeMounts=mounts)
    named = {"claimName": claim["metadata"]["name"]}
    template["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": named}]
    return [claim, resource(where, key, "batch/v1", "Job", spec=job(template))]


def _jobset(where: Where) -> list[Resource]:
    template = {"spec": job(pod(where, "jobset", "plain", command=SAY))}
    jobs = [{"name": name, "replicas": 1, "template": template} for name in ("driver", "workers")]
    spec = {"replicatedJobs": jobs, "failurePolicy": {"maxRestarts": 0}}
    return [resource(where, "jobset", "jobset.x-k8s.io/v1alpha2", "JobSet", spec=spec)]


def _lws(where: Where) -> list[Resource]:
    """A server: it does not end, and has passed once leader and worker run."""
    worker = pod(where, "lws", "plain", command=["sleep", "3600"], restart="Always")
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": worker}}
    return [resource(where, "lws", "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec=spec)]


def _mpi(where: Where) -> list[Resource]:
    key = "mpi_operator"
    launcher = pod(where, key, "mpi", command=["mpirun", "-n", "2", "/home/mpiuser/pi"])
    daemon = ["/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config"]
    worker = pod(where, key, "mpi", command=daemon, restart="Never")
    spec = {
        "slotsPerWorker": 1,
        "sshAuthMountPath": MPI_SSH,
        "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0},
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": launcher},
            "Worker": {"replicas": 2, "template": worker},
        },
    }
    return [resource(where, key, "kubeflow.org/v2beta1", "MPIJob", spec=spec)]


def _trainer(where: Where) -> list[Resource]:
    """A runtime of the trial sets the scheduler; those of the chart do not."""
    key, api = "trainer", "trainer.kubeflow.org/v1alpha1"
    template = pod(where, key, "plain", name="node", command=SAY)
    step = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    node = {"name": "node", "template": {"metadata": step, "spec": {"template": template}}}
    body = {"mlPolicy": {"numNodes": 2}, "template": {"spec": {"replicatedJobs": [node]}}}
    runtime = resource(where, key, api, "TrainingRuntime", spec=body)
    named = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime"}
    named |= {"name": runtime["metadata"]["name"]}
    spec = {"runtimeRef": named, "trainer": {"numNodes": 2}}
    return [runtime, resource(where, key, api, "TrainJob", spec=spec)]


def _ray(where: Where) -> list[Resource]:
    key = "kuberay"
    head = pod(where, key, "ray", name="ray-head", asked=RAY, restart="Always")
    worker = pod(where, key, "ray", name="ray-worker", asked=RAY, restart="Always")
    submitter = pod(where, key, "ray", name="ray-job-submitter", asked=RAY)
    group = {"groupName": "workers", "replicas": 1, "minReplicas": 1, "maxReplicas": 1}
    spec = {
        "entrypoint": f"python -c '{RAY_SAYS}'",
        "submissionMode": "K8sJobMode",
        # By default the submitter has no queue, and a memory limit of five times its request.
        "submitterPodTemplate": submitter,
        "shutdownAfterJobFinishes": True,
        "backoffLimit": 0,
        "rayClusterSpec": {
            "headGroupSpec": {"rayStartParams": {}, "template": head},
            "workerGroupSpecs": [{**group, "rayStartParams": {}, "template": worker}],
        },
    }
    return [resource(where, key, "ray.io/v1", "RayJob", spec=spec)]


HELLOS: tuple[Hello, ...] = (
    Hello(
        "nfs_csi",
        "A volume on NFS is created and written",
        _volume,
        condition("Complete", "Failed"),
    ),
    Hello("jobset", "Two jobs as one set", _jobset, state("terminalState", "Completed", "Failed")),
    Hello("lws", "A leader with its worker", _lws, condition("Available", "Failed")),
    Hello(
        "mpi_operator",
        "An MPI job on two workers",
        _mpi,
        condition("Succeeded", "Failed"),
        image="mpi",
        needs="it must have mpirun, sshd and /home/mpiuser/pi, as mpioperator/mpi-pi:openmpi",
    ),
    Hello("trainer", "A training job on two nodes", _trainer, condition("Complete", "Failed")),
    Hello(
        "kuberay",
        "A Ray job on its own cluster",
        _ray,
        state("jobStatus", "SUCCEEDED", "FAILED"),
        image="ray",
    ),
    *hello_data.HELLOS,
    *hello_services.HELLOS,
    *hello_network.HELLOS,
)
