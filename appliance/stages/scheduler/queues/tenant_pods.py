"""Policies of what a project's pods may be: GPUs that KAI counts, nothing of the host, an end, no marks of the cluster's programs."""

from appliance.stages.scheduler.queues.admission import (
    ANY,
    EVERY,
    MEMBERS,
    NOT_KAI,
    WRITES,
    Policy,
    Rule,
    note,
    objects,
    of_templates,
)
from appliance.stages.scheduler.queues.kai import POOL_LABEL
from appliance.stages.scheduler.queues.tenant_queues import PRIORITY_LABEL, QUEUE
from appliance.stages.scheduler.site import SchedulerOptions

LONGEST_GRACE = 600
"""Seconds. Evicted work keeps its GPUs for its grace, and their owner waits for it."""

# Baseline's own list, and what RDMA needs (Kubernetes, Pod Security Standards).
CAPABILITIES = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
    *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT", "IPC_LOCK"),
)
PARTS = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "gpu-fraction-container-name")
"""Annotations by which a pod asks for a part of a GPU (KAI v0.12 to v0.18)."""
SHARED = "runai/shared-gpu-configmap"
"""Where a pod's part of a GPU will stand. KAI's admission writes it, as the maker of the pod, before policies look (seen, v0.12.0)."""
BINDERS = ("received-resource-type", "runai-gpu-group", SHARED)
"""What KAI's admission and binder write on pods, and read again."""
STAMPS = ("kai.scheduler/last-start-timestamp", "kai.scheduler/stale-podgroup-timestamp")
"""The pod-grouper copies an owner's annotations to its group, where the scheduler reads since when the work runs (v0.12.0)."""
GROUP = "pod-group-name"
PLACED = ("tolerations", "nodeSelector", "affinity", "terminationGracePeriodSeconds")
"""What the API lets anybody who may change a pod change in its spec, at least while it waits for its host; judged when it was made."""


def _asks_gpu(boxes: str) -> str:
    return (
        f"{boxes}.exists(c, has(c.resources) && has(c.resources.limits)"
        " && c.resources.limits.exists(r, r.startsWith('nvidia.com/')))"
    )


def gpus(options: SchedulerOptions) -> Policy:
    """That GPUs are those KAI counts. It takes the larger of init containers and others, so sidecars' would be free (v0.12.0)."""
    shared = options.sharing != "none"
    parts = " || ".join(note("t", key) for key in PARTS)
    given = f"({parts})" if shared else "false"
    # KAI's own admission writes it for a part of a GPU, from a ConfigMap of the pod's.
    own = (
        f"({given} && has(e.valueFrom) && has(e.valueFrom.configMapKeyRef)"
        " && e.valueFrom.configMapKeyRef.name.contains('-shared-gpu-'))"
    )
    rules = [
        Rule(
            f"variables.templates.all(t, {EVERY}.all(c, !has(c.env) || c.env.all(e,"
            f" e.name != 'NVIDIA_VISIBLE_DEVICES' || {own})))",
            "NVIDIA_VISIBLE_DEVICES would show the container GPUs it was not given: take it out of env; "
            "the GPUs of nvidia.com/gpu under resources.limits are visible by themselves",
        ),
        Rule(
            f"variables.templates.all(t, {EVERY}.all(c, !has(c.envFrom) || c.envFrom.all(e,"
            " !has(e.prefix) || e.prefix == '' || !'NVIDIA_VISIBLE_DEVICES'.startsWith(e.prefix))))",
            "the prefix under envFrom could make NVIDIA_VISIBLE_DEVICES: choose another prefix",
        ),
        Rule(
            "variables.templates.all(t, !has(t.spec.runtimeClassName) || t.spec.runtimeClassName == null"
            f" || !t.spec.runtimeClassName.startsWith('nvidia') || {given} || {_asks_gpu('t.spec.containers')})",
            "the runtime class nvidia shows GPUs to a pod that asks for none: take runtimeClassName out, "
            "or ask for nvidia.com/gpu under resources.limits",
        ),
        Rule(
            f"variables.templates.all(t, {EVERY}.all(c, !has(c.resources) || !has(c.resources.limits)"
            " || c.resources.limits.all(r, !r.startsWith('nvidia.com/') || r == 'nvidia.com/gpu'"
            " || r.startsWith('nvidia.com/mig-'))))",
            "the queues do not count this kind of GPU: ask for nvidia.com/gpu or an instance nvidia.com/mig-…",
        ),
        Rule(
            "variables.templates.all(t, !has(t.spec.initContainers)"
            f" || !{_asks_gpu('t.spec.initContainers')})",
            "GPUs of init containers are not counted beside those of the others: ask for them in containers",
        ),
        Rule(
            "variables.templates.all(t, !has(t.spec.resourceClaims) || t.spec.resourceClaims.size() == 0)",
            "devices by resource claims pass by the queues: ask for nvidia.com/gpu under resources.limits",
        ),
    ]
    if not shared:
        none = " && ".join(f"!{note('t', key)}" for key in PARTS)
        rules.append(
            Rule(
                f"variables.templates.all(t, {none})",
                "GPUs are not shared at this site: take the annotations gpu-fraction and gpu-memory out, "
                "and ask for a whole GPU or an instance of MIG",
            )
        )
    return of_templates("appliance-gpus", *rules, more=True)


def gpu_words() -> Policy:
    """envFrom makes a variable of each key, and the container's own come after those of the device plugin."""
    keys = "(!has(object.data) || !('NVIDIA_VISIBLE_DEVICES' in object.data))"
    whole = "(!has(object.binaryData) || !('NVIDIA_VISIBLE_DEVICES' in object.binaryData))"
    on = (objects("", ["configmaps", "secrets"], WRITES),)
    rules = (
        Rule(
            f"{keys} && {whole}",
            "NVIDIA_VISIBLE_DEVICES would show containers GPUs they were not given: take the key out",
        ),
        Rule(
            "!object.metadata.name.contains('-shared-gpu-')",
            "what has -shared-gpu- in its name says which part of a GPU a pod has, and is KAI's: choose another name",
        ),
    )
    return Policy("appliance-gpu-words", rules, on, {"not-by-kai": NOT_KAI})


def host(options: SchedulerOptions) -> Policy:
    """Also where the site says pod_security: privileged, which RDMA needs: a pod that has the host has all of its GPUs."""
    names = ", ".join(f"'{name}'" for name in CAPABILITIES)
    spaces = ("hostPID", "hostIPC", *(() if options.rdma == "host" else ("hostNetwork",)))
    none = " && ".join(f"(!has(t.spec.{name}) || !t.spec.{name})" for name in spaces)
    context = "has(c.securityContext)"
    return of_templates(
        "appliance-host",
        Rule(
            f"variables.templates.all(t, {none})",
            f"the pod asks for the host's own namespaces: take {', '.join(spaces)} out",
        ),
        Rule(
            f"variables.templates.all(t, {EVERY}.all(c, !{context}"
            " || ((!has(c.securityContext.privileged) || !c.securityContext.privileged)"
            " && (!has(c.securityContext.procMount) || c.securityContext.procMount == 'Default')"
            " && (!has(c.securityContext.capabilities) || !has(c.securityContext.capabilities.add)"
            f" || c.securityContext.capabilities.add.all(k, k in [{names}])))))",
            "the container asks for power over the host: take privileged, procMount and all added capabilities out but IPC_LOCK",
        ),
        more=True,
    )


def end() -> Policy:
    """That who is evicted goes."""
    return of_templates(
        "appliance-end",
        Rule(
            "variables.templates.all(t, !has(t.spec.terminationGracePeriodSeconds)"
            f" || t.spec.terminationGracePeriodSeconds <= {LONGEST_GRACE})",
            "work that is evicted keeps its GPUs for its grace while their owner waits: write "
            f"terminationGracePeriodSeconds of {LONGEST_GRACE} at most, and save what you need within that",
        ),
    )


def marks() -> Policy:
    """What the cluster's own programs write, and a person could only forge."""
    stamped = " && ".join(f"!{note('object', key)}" for key in STAMPS)
    forged = [f"!{note('object', key)}" for key in (*BINDERS, GROUP) if key != SHARED]
    parts = " || ".join(note("object", key) for key in PARTS)
    named = f"object.metadata.annotations['{SHARED}'].endsWith('-shared-gpu')"
    written = " && ".join((*forged, f"(!{note('object', SHARED)} || (({parts}) && {named}))"))
    owned = (
        "!has(object.metadata.ownerReferences)"
        " || object.metadata.ownerReferences.all(o, o.kind == 'Pod' && o.apiVersion == 'v1')"
    )
    before = "(oldObject != null && has(oldObject.metadata.ownerReferences) ? oldObject.metadata.ownerReferences : [])"
    now = "(has(object.metadata.ownerReferences) ? object.metadata.ownerReferences : [])"
    pod = "request.resource.group != '' || request.resource.resource != 'pods'"
    runs = "request.resource.resource in ['pods', 'jobs', 'deployments', 'replicasets', 'statefulsets']"
    rules = (
        Rule(
            f"{stamped}",
            "the annotation tells KAI since when work runs, and is KAI's to write: take it out",
        ),
        Rule(
            f"{pod} || request.operation == 'UPDATE' || ({written})",
            f"the annotation says what KAI gave the pod, and is KAI's to write: take {GROUP} and its like out",
        ),
        Rule(
            f"!({runs}) || {now} == {before} || {owned}",
            "only the cluster's controllers make a pod or Job somebody's: take ownerReferences out",
        ),
    )
    return Policy("appliance-marks", rules, ANY, {"by-members": MEMBERS})


def frozen() -> Policy:
    """What a pod was admitted with stays: KAI keeps its group's queue, limits of time read the pod's."""
    labels = (QUEUE, POOL_LABEL, PRIORITY_LABEL, "kai.scheduler/subgroup-name", "runai-gpu-group")
    notes = (*PARTS, *BINDERS, GROUP)

    def same(kind: str, keys: tuple[str, ...]) -> str:
        new, old = f"object.metadata.{kind}", f"oldObject.metadata.{kind}"
        listed = ", ".join(f"'{key}'" for key in keys)
        return (
            f"[{listed}].all(k, (has({new}) && k in {new} ? {new}[k] : '')"
            f" == (has({old}) && k in {old} ? {old}[k] : ''))"
        )

    rule = Rule(
        f"{same('labels', labels)} && {same('annotations', notes)}",
        "queue, pool, priority and GPUs of a pod stay as they were when it was made: delete the pod, "
        "and make it anew in the queue you want",
    )
    place = " && ".join(
        f"(has(object.spec.{key}) == has(oldObject.spec.{key})"
        f" && (!has(object.spec.{key}) || object.spec.{key} == oldObject.spec.{key}))"
        for key in PLACED
    )
    placed = Rule(
        place,
        f"{', '.join(PLACED)} of a pod stay as they were when it was made: delete the pod, and make it anew",
    )
    on = (objects("", ["pods"], ["UPDATE"]),)
    return Policy("appliance-frozen", (rule, placed), on, {"by-members": MEMBERS})


def services() -> Policy:
    """No traffic of others."""
    rule = Rule(
        "!has(object.spec.externalIPs) || object.spec.externalIPs.size() == 0",
        "externalIPs would draw traffic of others to this project (CVE-2020-8554): take them out",
    )
    return Policy("appliance-services", (rule,), (objects("", ["services"], WRITES),))
