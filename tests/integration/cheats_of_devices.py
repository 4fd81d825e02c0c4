"""Cheats that reach GPUs nobody counts, other devices or the host."""

from tests.integration.cheat_parts import (
    ALPHA,
    DEVICE,
    FABRIC,
    HOST,
    MAKERS,
    MINE,
    SHARED,
    UNJUDGED,
    VOID,
    Cheat,
    changed,
    container_of,
    cron_of,
    env,
    gpus_of,
    job,
    jobset,
    made_by,
    noted,
    place,
    pod,
    pods,
    probe,
    refused_pod,
    secure,
    sized,
    trainjob,
)

CHEATS: tuple[Cheat, ...] = (
    # A quota: GPUs that nobody counts.
    *(
        refused_pod(f"the GPU runtime with {name}", "appliance-gpus", pod(**spec))
        for name, spec in (
            ("an amount of 0", {"runtimeClassName": "nvidia", "container": gpus_of("0")}),
            (
                "a second container that asks for none",
                {
                    "runtimeClassName": "nvidia",
                    "containers": [container_of("a", **gpus_of("1")), container_of("b")],
                },
            ),
            (
                "an init container that asks for none",
                {"runtimeClassName": "nvidia", "initContainers": [container_of("i")]},
            ),
            (
                "a sidecar that asks for none",
                {
                    "runtimeClassName": "nvidia",
                    "initContainers": [container_of("i", restartPolicy="Always")],
                },
            ),
            (
                "a second container, by the class that KAI's admission writes",
                {"containers": [container_of("a", **gpus_of("1")), container_of("b")]},
            ),
            (
                "a second container that asks for 0",
                {
                    "containers": [
                        container_of("a", **gpus_of("1")),
                        container_of("b", **gpus_of("0")),
                    ]
                },
            ),
        )
    ),
    *(
        refused_pod(
            f"GPUs by a mount at {at}",
            "appliance-gpus",
            pod(
                volumes=[{"name": "v", "emptyDir": {}}],
                container={"volumeMounts": [{"name": "v", "mountPath": at}]},
            ),
        )
        for at in (
            "/var/run/nvidia-container-devices/all",
            "/run/nvidia-container-devices/0",
            "/var/run//nvidia-container-devices",
        )
    ),
    # Devices by words of NVIDIA's toolkit.
    *(
        refused_pod(
            f"devices by {name}",
            "appliance-gpus",
            pod(container={"env": [{"name": name, "value": value}]}),
        )
        for name, value in (
            ("NVIDIA_MOFED", "enabled"),
            ("NVIDIA_NVSWITCH", "enabled"),
            ("NVIDIA_IMEX_CHANNELS", "0"),
            ("NVIDIA_MIG_CONFIG_DEVICES", "all"),
            ("NVIDIA_MIG_MONITOR_DEVICES", "all"),
        )
    ),
    refused_pod(
        "GPUs by a file in a volume",
        "appliance-gpus",
        pod(
            gpus=0,
            volumes=[{"name": "v", "emptyDir": {}}],
            container=env(valueFrom={"fileKeyRef": {"volumeName": "v", "path": "a", "key": "a"}}),
        ),
    ),
    refused_pod(
        "GPUs by a later variable of the same name",
        "appliance-gpus",
        pod(gpus=0, container={"env": [*VOID["env"], *env(value="all")["env"]]}),
    ),
    refused_pod(
        "devices by a variable of a ConfigMap",
        "appliance-gpus",
        pod(
            container={
                "env": [
                    {
                        "name": "NVIDIA_MOFED",
                        "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}},
                    }
                ]
            }
        ),
    ),
    *(
        Cheat(
            f"devices by a {kind} for envFrom",
            "appliance-gpu-words",
            f"/api/v1/namespaces/{ALPHA}/{kind.lower()}s",
            {"metadata": {"name": "try"}, key: {"NVIDIA_MOFED": "enabled"}},
        )
        for kind, key in (("ConfigMap", "data"), ("Secret", "stringData"))
    ),
    refused_pod(
        "GPUs by the file that kubelet mounts for a last message",
        "appliance-gpus",
        pod(container={"terminationMessagePath": "/var/run/nvidia-container-devices/all"}),
    ),
    # What KAI and NVIDIA's programs read, at all places a member may write it.
    *(
        refused_pod(f"the annotation {key}: {value}", "appliance-marks", pod(notes={key: value}))
        for key, value in (
            ("nvidia.com/mig-1g.10gb", "7"),
            ("nvidia.com/container.work.gpu-memory.limit", "1Gi"),
            ("kai.scheduler/last-start-timestamp", "2099-01-01T00:00:00Z"),
            ("kai.scheduler/top-owner-metadata", "x"),
            ("kai.scheduler/what-comes-later", "x"),
            ("scheduling.kai.scheduler/x", "x"),
            ("runai/job-id", "x"),
            ("runai-job-id", "x"),
            ("run.ai/fake.gpu", "x"),
            ("mps", "true"),
            ("received-resource-type", "Fraction"),
            ("gpu-group", "x"),
            ("cdi.k8s.io/all", "nvidia.com/gpu=all"),
            # What kubelet, drains and networks read.
            ("kubernetes.io/config.source", "file"),
            ("cni.projectcalico.org/ipAddrs", '["10.0.0.9"]'),
            ("cni.projectcalico.org/allowedSourcePrefixes", '["10.0.0.0/8"]'),
            ("k8s.v1.cni.cncf.io/networks", "default/hosts"),
            ("io.cilium/global-service", "true"),
            ("ovn.kubernetes.io/ip_address", "10.0.0.9"),
            # What plugins of the container runtime read.
            ("devices.nri.io/container.work", "- path: /dev/nvidia0"),
            ("mounts.noderesource.dev/container.work", "- source: /home"),
            ("ulimits.nri.containerd.io/container.work", "- type: memlock"),
            ("io.katacontainers.config.hypervisor.path", "/bin/sh"),
            ("kai.scheduler/batch-min-member", "-1"),
            ("kai.scheduler/batch-min-member", "2000000000"),
        )
    ),
    *(
        refused_pod(f"the label {key}", "appliance-marks", pod(labels={key: "x"}))
        for key in (
            *("runai-gpu-group", "runai-gpu-group/a", "kai.scheduler/subgroup-name"),
            *("kai.scheduler/preemptibility", "kai.scheduler/task-priority", "runai-job-id"),
            "nvidia.com/mig.config",
        )
    ),
    *(
        made_by(
            kind,
            "another count of GPUs",
            "appliance-marks",
            pod(notes={"nvidia.com/mig-1g.10gb": "7"}),
        )
        for kind in MAKERS
        if kind not in UNJUDGED
    ),
    made_by(
        "Job", "the group of another's pods", "appliance-marks", pod(notes={"pod-group-name": "x"})
    ),
    made_by(
        "Job", "another pod's part of a GPU", "appliance-marks", pod(notes={SHARED: "x-shared-gpu"})
    ),
    *(
        Cheat(f"{name}, on a {kind}", "appliance-marks", place(kind), body, member=kind == "Job")
        for name, kind, body in (
            ("not to be evicted", "Job", job(pod(), {"kai.scheduler/preemptibility": "x"})),
            ("a MIG count", "Job", noted(job(pod()), {"nvidia.com/mig-1g.10gb": "7"})),
            ("a MIG count", "TrainJob", noted(trainjob({}), {"nvidia.com/mig-1g.10gb": "7"})),
            ("not to be evicted", "JobSet", noted(jobset(pod()), {"runai/x": "y"})),
        )
    ),
    Cheat(
        "the group of another's pods, on a Job itself",
        "appliance-marks",
        place("Job"),
        noted(job(pod()), {"pod-group-name": "x"}),
    ),
    Cheat(
        "a start in the future, of the Jobs of a CronJob",
        "appliance-marks",
        place("CronJob"),
        cron_of({"kai.scheduler/last-start-timestamp": "2099-01-01T00:00:00Z"}),
    ),
    *(
        changed(f"the annotation {key}, once the pod runs", {"annotations": {key: "7"}})
        for key in (
            *("nvidia.com/mig-1g.10gb", "received-resource-type", "mps", "runai-job-id"),
            *("kai.scheduler/last-start-timestamp", "kai.scheduler/what-comes-later"),
            *("kai.scheduler/topology", "cdi.k8s.io/all"),
        )
    ),
    *(
        changed(f"the label {key}, once the pod runs", {"labels": {key: "7"}})
        for key in ("runai-gpu-group/a", "kai.scheduler/preemptibility", "runai-job-id")
    ),
    refused_pod(
        "all GPUs by NVIDIA_VISIBLE_DEVICES", "appliance-gpus", pod(container=env(value="all"))
    ),
    refused_pod(
        "GPUs by NVIDIA_VISIBLE_DEVICES of a file that an init container writes",
        "appliance-gpus",
        pod(
            volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}],
            container=env(
                valueFrom={
                    "fileKeyRef": {"volumeName": "v", "path": "e", "key": "NVIDIA_VISIBLE_DEVICES"}
                }
            ),
        ),
    ),
    refused_pod(
        "GPUs by NVIDIA_VISIBLE_DEVICES of a ConfigMap",
        "appliance-gpus",
        pod(
            container=env(
                valueFrom={
                    "configMapKeyRef": {"name": "x-shared-gpu-0", "key": "NVIDIA_VISIBLE_DEVICES"}
                }
            )
        ),
    ),
    refused_pod(
        "GPUs by a prefix of envFrom",
        "appliance-gpus",
        pod(container={"envFrom": [{"prefix": "NVIDIA_", "configMapRef": {"name": "a"}}]}),
    ),
    Cheat(
        "GPUs by a ConfigMap for envFrom",
        "appliance-gpu-words",
        f"/api/v1/namespaces/{ALPHA}/configmaps",
        {"metadata": {"name": "try"}, "data": {"NVIDIA_VISIBLE_DEVICES": "all"}},
    ),
    refused_pod(
        "the GPU runtime without a GPU", "appliance-gpus", pod(gpus=0, runtimeClassName="nvidia")
    ),
    refused_pod(
        "GPUs of a sidecar, which are not counted",
        "appliance-gpus",
        pod(
            initContainers=[
                {
                    "name": "side",
                    "image": "none",
                    "restartPolicy": "Always",
                    "resources": {"limits": {"nvidia.com/gpu": "8"}},
                }
            ]
        ),
    ),
    refused_pod(
        "a resource of GPUs that the queues do not know",
        "appliance-gpus",
        pod(gpus=0, container={"resources": {"limits": {"nvidia.com/gpu.shared": "8"}}}),
    ),
    refused_pod(
        "GPUs by a resource claim",
        "appliance-gpus",
        pod(gpus=0, resourceClaims=[{"name": "a", "resourceClaimTemplateName": "gpu"}]),
    ),
    refused_pod(
        "a part of a GPU where none are shared",
        "appliance-gpus",
        pod(gpus=0, notes={"gpu-fraction": "0.1"}),
    ),
    refused_pod(
        "a part of a GPU where none are shared, as KAI's admission completes it",
        "appliance-gpus",
        pod(gpus=0, notes={"gpu-fraction": "0.1", SHARED: "try-abcdefg-shared-gpu"}),
    ),
    refused_pod(
        "another pod's part of a GPU", "appliance-marks", pod(notes={SHARED: "x-shared-gpu"})
    ),
    changed("a part of a GPU, once the pod runs", {"annotations": {"gpu-fraction": "0.1"}}),
    refused_pod(
        "what the binder writes, forged", "appliance-marks", pod(notes={"runai-gpu-group": "x"})
    ),
    Cheat(
        "all GPUs in a container added later",
        "appliance-gpus",
        f"{pods(ALPHA)}/{MINE}/ephemeralcontainers",
        {
            "spec": {
                "ephemeralContainers": [
                    {"name": "late", "image": "none", **env(value="all")},
                ]
            }
        },
        "PATCH",
    ),
    *(
        Cheat(
            f"a container added later {name}",
            judge,
            f"{pods(ALPHA)}/{MINE}/ephemeralcontainers",
            {"spec": {"ephemeralContainers": [{"name": "late", "image": "none", **more}]}},
            "PATCH",
        )
        for name, judge, more in (
            ("whose image may show it all GPUs", "appliance-gpus", {}),
            ("of 900 KB", "appliance-weight", {**VOID, "args": ["x" * 900_000]}),
        )
    ),
    # The host.
    *(
        refused_pod(
            f"{name}, where RDMA is allowed", "appliance-host", pod("fabric-train", **spec), FABRIC
        )
        for name, spec in (
            ("a privileged container", {"container": secure(privileged=True)}),
            ("SYS_ADMIN", {"container": secure(capabilities={"add": ["SYS_ADMIN"]})}),
            ("the host's processes", {"hostPID": True}),
            ("the host's memory", {"hostIPC": True}),
            ("the host's network", {"hostNetwork": True}),
            (
                "a port of the host",
                {"container": {"ports": [{"containerPort": 80, "hostPort": 80}]}},
            ),
            (
                "a port of the host for an init container",
                {
                    "gpus": 0,
                    "initContainers": [
                        container_of("i", ports=[{"containerPort": 80, "hostPort": 8080}]),
                    ],
                },
            ),
            ("all of /proc", {"hostUsers": False, "container": secure(procMount="Unmasked")}),
            ("NET_RAW", {"container": secure(capabilities={"add": ["NET_RAW"]})}),
            ("every capability", {"container": secure(capabilities={"add": ["ALL"]})}),
            ("a type of SELinux", {"container": secure(seLinuxOptions={"type": "spc_t"})}),
            ("a user of SELinux", {"securityContext": {"seLinuxOptions": {"user": "root"}}}),
            ("no seccomp", {"container": secure(seccompProfile={"type": "Unconfined"})}),
            (
                "no seccomp of the pod",
                {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
            ),
            ("no AppArmor", {"container": secure(appArmorProfile={"type": "Unconfined"})}),
            (
                "no AppArmor of the pod",
                {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
            ),
            (
                "a sysctl of the host",
                {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
            ),
            ("a probe of another host", {"container": {"livenessProbe": probe("10.0.0.1")}}),
            (
                "a probe by TCP of another host",
                {"container": {"readinessProbe": probe("10.0.0.1", "tcpSocket")}},
            ),
            (
                "a hook to another host",
                {"container": {"lifecycle": {"preStop": probe("10.0.0.1")}}},
            ),
        )
    ),
    Cheat(
        "no AppArmor by its older annotation, where RDMA is allowed",
        "appliance-host",
        place("Job", FABRIC),
        {
            **job(
                pod(
                    "fabric-train",
                    notes={"container.apparmor.security.beta.kubernetes.io/work": "unconfined"},
                )
            ),
            "metadata": {"name": "try"},
        },
    ),
    Cheat(
        "IPC_LOCK by a Job, where RDMA is not",
        "appliance-host",
        place("Job"),
        job(pod(container=secure(capabilities={"add": ["IPC_LOCK"]}))),
    ),
    *(
        refused_pod(
            f"{name}, where RDMA is allowed",
            "appliance-volumes",
            pod("fabric-train", volumes=volumes),
            FABRIC,
        )
        for name, volumes in (("the host's files", HOST), ("a GPU's device of the host", DEVICE))
    ),
    # A place of a host for too little of its cores.
    *(
        refused_pod(name, "appliance-sizes", pod(gpus=0, containers=boxes, initContainers=before))
        for name, boxes, before in (
            ("a place for 1m of cpu", [sized("a", "1m")], None),
            ("a place for 478m of cpu", [sized("a", "239m"), sized("b", "239m")], None),
            # KAI does not add what sidecars request.
            (
                "a place whose cpu a sidecar requests",
                [sized("a", "1m")],
                [sized("s", "480m", restartPolicy="Always")],
            ),
            ("a place whose cpu an init container requests", [sized("a", "1m")], [sized("i", "1")]),
        )
    ),
    # Devices nobody gave.
    *(
        refused_pod(
            f"the device {name}",
            "appliance-devices",
            pod(container={"resources": {"limits": {name: "1"}}}),
        )
        for name in (
            "rdma/fabric",
            "rdma/hca_shared_devices_a",
            "amd.com/gpu",
            "habana.ai/gaudi",
            "smarter-devices/fuse",
            "deviceclass.resource.kubernetes.io/gpu",
        )
    ),
    refused_pod(
        "huge pages",
        "appliance-devices",
        pod(
            container={
                "resources": {
                    "limits": {"hugepages-2Mi": "1Gi", "memory": "1Gi", "cpu": "1"},
                }
            }
        ),
    ),
    refused_pod(
        "an adapter nobody counts, where RDMA is allowed",
        "appliance-devices",
        pod("fabric-train", container={"resources": {"limits": {"rdma/other": "1"}}}),
        FABRIC,
    ),
)
