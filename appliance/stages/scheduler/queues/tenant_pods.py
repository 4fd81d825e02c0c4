"""Policies of what a project's pods may be: GPUs that KAI counts, nothing of the host, an end, no marks of the cluster's programs."""

from appliance.stages.scheduler.queues.admission import (
    ANY,
    EVERY,
    MEMBERS,
    NOT_KAI,
    TEMPLATED,
    WRITES,
    Policy,
    Rule,
    note,
    objects,
    of_templates,
)
from appliance.stages.scheduler.queues.tenant_baseline import baseline
from appliance.stages.scheduler.queues.tenant_keys import BATCH, PARTS, known, unchanged
from appliance.stages.scheduler.queues.tenant_queues import PRIORITY_LABELS, PROJECT_LABEL
from appliance.stages.scheduler.site import SchedulerOptions

LONGEST_GRACE = 600
"""Seconds. Evicted work keeps its GPUs for its grace, and their owner waits for it."""

SHARED = "runai/shared-gpu-configmap"
"""Where a pod's part of a GPU will stand. KAI's admission writes it, as the maker of the pod, before policies look (seen, v0.12.0)."""
BINDERS = ("received-resource-type", "runai-gpu-group", SHARED)
"""What KAI's admission and binder write on pods, and read again."""
STAMPS = ("kai.scheduler/last-start-timestamp", "kai.scheduler/stale-podgroup-timestamp")
"""The pod-grouper copies an owner's annotations to its group, where the scheduler reads since when the work runs (v0.12.0)."""
GROUP = "pod-group-name"
FINALIZERS = ("foregroundDeletion", "kubernetes.io/pvc-protection", "orphan")
"""Those that a controller of the cluster itself takes off again."""
PORTS = 20
"""Of a Service. Where a named port is another number in each pod, its controller writes all ports again for every pod."""
SPARK = "spark"
"""The account of Spark's drivers in each project."""
PLACED = ("tolerations", "nodeSelector", "affinity", "terminationGracePeriodSeconds")
"""What the API lets anybody who may change a pod change in its spec, at least while it waits for its host; judged when it was made."""


VISIBLE = "NVIDIA_VISIBLE_DEVICES"
NONE = "['void', 'none']"
"""Values by which a container is shown no GPU, whatever its image says."""
OTHERS = (
    *("NVIDIA_IMEX_CHANNELS", "NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES"),
    *("NVIDIA_MOFED", "NVIDIA_NVSWITCH"),
)
"""By these NVIDIA's toolkit gives a container with a GPU devices beside it: all adapters of the fabric, the switches of NVLink, channels
to the memory of other hosts' GPUs (v1.17, internal/modifier/gated.go and libnvidia-container)."""
OFF = "['', 'void', 'none', 'disabled']"
DEVICES = "nvidia-container-devices"
"""A mount below such a folder names GPUs to NVIDIA's toolkit."""
ASKS = (
    "(has(c.resources) && has(c.resources.limits) && c.resources.limits.exists(r,"
    " r.startsWith('nvidia.com/')"
    " && quantity(string(c.resources.limits[r])).isGreaterThan(quantity('0'))))"
)
"""CEL: container c has a GPU. An amount of 0 is none."""
OF_RAY = (
    "(request.userInfo.username.startsWith('system:serviceaccount:')"
    " && !request.userInfo.username.startsWith('system:serviceaccount:kube-system:')"
    " && !request.userInfo.username.startsWith('system:serviceaccount:' + request.namespace + ':')"
    " && has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o,"
    " o.apiVersion.startsWith('ray.io/') && has(o.controller) && o.controller))"
)
"""CEL: made by Ray's operator from a template that was judged, with an init container of its own before it. Templates of Spark's and
Dask's applications are judged nowhere else."""


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
            f" e.name != '{VISIBLE}' || (has(e.value) && e.value in {NONE}) || {own})))",
            f"{VISIBLE} would show the container GPUs it was not given: take it out of env, or write void; "
            "the GPUs of nvidia.com/gpu under resources.limits are visible by themselves",
        ),
        Rule(
            f"variables.templates.all(t, {EVERY}.all(c, !has(c.env) || c.env.all(e,"
            f" !(e.name in {list(OTHERS)}) || (!has(e.valueFrom)"
            f" && (!has(e.value) || e.value in {OFF})))))",
            f"{', '.join(OTHERS)} would give the container devices its project does not have: take them out of env",
        ),
        Rule(
            f"variables.templates.all(t, {EVERY}.all(c, !has(c.envFrom) || c.envFrom.all(e,"
            f" !has(e.prefix) || e.prefix == '' || {[VISIBLE, *OTHERS]}.all(n, !n.startsWith(e.prefix)))))",
            "the prefix under envFrom could make NVIDIA_VISIBLE_DEVICES or its like: choose another prefix",
        ),
        Rule(
            f"variables.templates.all(t, {EVERY}.all(c,"
            # Kubelet mounts a file there.
            f" (!has(c.terminationMessagePath) || !c.terminationMessagePath.contains('{DEVICES}'))"
            f" && (!has(c.volumeMounts) || c.volumeMounts.all(m, !m.mountPath.contains('{DEVICES}')))"
            f" && (!has(c.volumeDevices) || c.volumeDevices.all(m, !m.devicePath.contains('{DEVICES}')))))",
            f"a mount at {DEVICES} would show the container GPUs it was not given: choose another mountPath",
        ),
        Rule(
            f"variables.templates.all(t, !{_gpu_runtime(given)} || {_dark(own)}"
            f".size() <= ({given} && !{EVERY}.exists(c, has(c.env) && c.env.exists(e,"
            f" e.name == '{VISIBLE}' && {own})) ? 1 : 0))",
            "the runtime class nvidia, which KAI gives each pod with GPUs, shows GPUs to a container that asks for none: "
            "ask for nvidia.com/gpu under resources.limits, or write "
            f"env: [{{name: {VISIBLE}, value: void}}] in each container and init container that needs none",
        ),
        Rule(
            f"variables.templates.all(t, {EVERY}.all(c, !has(c.resources) || !has(c.resources.limits)"
            " || c.resources.limits.all(r, !r.startsWith('nvidia.com/') || r == 'nvidia.com/gpu'"
            " || r.startsWith('nvidia.com/mig-'))))",
            "the queues do not count this kind of GPU: ask for nvidia.com/gpu or an instance nvidia.com/mig-…",
        ),
        Rule(
            "variables.templates.all(t, !has(t.spec.initContainers)"
            f" || !t.spec.initContainers.exists(c, {ASKS}))",
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


def _gpu_runtime(given: str) -> str:
    """CEL: NVIDIA's runtime starts the containers: by its class, which KAI's admission writes on pods with GPUs (v0.12.0)."""
    named = (
        "(has(t.spec.runtimeClassName) && t.spec.runtimeClassName != null"
        " && t.spec.runtimeClassName.startsWith('nvidia'))"
    )
    return f"({named} || {given} || {EVERY}.exists(c, {ASKS}))"


def _dark(own: str) -> str:
    """CEL: the containers that have no GPU, and whose images alone say what they see. Members add none later."""
    boxes = (
        "(t.spec.containers + (has(t.spec.initContainers) ? t.spec.initContainers.filter(c,"
        " (has(c.restartPolicy) && c.restartPolicy == 'Always')"
        f" || !(request.resource.resource == 'pods' && {OF_RAY})) : []))"
    )
    hidden = (
        "(has(c.env) && c.env.exists(e,"
        f" e.name == '{VISIBLE}' && ((has(e.value) && e.value in {NONE}) || {own})))"
    )
    return f"{boxes}.filter(c, !{ASKS} && !{hidden})"


def gpu_words() -> Policy:
    """envFrom makes a variable of each key, and the container's own come after those of the device plugin."""
    named = [VISIBLE, *OTHERS]
    keys = f"(!has(object.data) || {named}.all(n, !(n in object.data)))"
    whole = f"(!has(object.binaryData) || {named}.all(n, !(n in object.binaryData)))"
    on = (objects("", ["configmaps", "secrets"], WRITES),)
    rules = (
        Rule(
            f"{keys} && {whole}",
            f"{VISIBLE} and {', '.join(OTHERS)} would give containers devices they were not given: take the key out",
        ),
        Rule(
            "!object.metadata.name.contains('-shared-gpu-')",
            "what has -shared-gpu- in its name says which part of a GPU a pod has, and is KAI's: choose another name",
        ),
    )
    return Policy("appliance-gpu-words", rules, on, {"not-by-kai": NOT_KAI})


def host(options: SchedulerOptions) -> Policy:
    """Also where the site says pod_security: privileged, which RDMA needs: a pod that has the host has all of its GPUs."""
    return of_templates("appliance-host", *baseline(options), more=True)


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


def leaving() -> Policy:
    """That who is deleted goes: a grace of the deletion's own takes the place of the pod's, and limits and drains see it as gone."""
    rule = Rule(
        "request.options == null || !has(request.options.gracePeriodSeconds)"
        f" || request.options.gracePeriodSeconds <= {LONGEST_GRACE}",
        f"a pod that is deleted keeps its GPUs for the grace: delete it with --grace-period={LONGEST_GRACE} at most",
    )
    on = (objects("", ["pods"], ["DELETE"]),)
    return Policy("appliance-leaving", (rule,), on, {"by-members": MEMBERS})


def marks(options: SchedulerOptions) -> Policy:
    """What the cluster's own programs write, and a person could only forge."""
    stamped = " && ".join(f"!{note('object', key)}" for key in STAMPS)
    forged = [f"!{note('object', key)}" for key in (*BINDERS, GROUP) if key != SHARED]
    parts = " || ".join(note("object", key) for key in PARTS)
    named = f"object.metadata.annotations['{SHARED}'].endsWith('-shared-gpu')"
    written = " && ".join((*forged, f"(!{note('object', SHARED)} || (({parts}) && {named}))"))
    # Spark's driver makes its executors, and owns them. An owner of a person's choice would be judged in the pod's place.
    owned = (
        "!has(object.metadata.ownerReferences) || (request.userInfo.username =="
        f" 'system:serviceaccount:' + request.namespace + ':{SPARK}'"
        " && object.metadata.ownerReferences.all(o, o.kind == 'Pod' && o.apiVersion == 'v1'))"
    )
    before = "(oldObject != null && has(oldObject.metadata.ownerReferences) ? oldObject.metadata.ownerReferences : [])"
    now = "(has(object.metadata.ownerReferences) ? object.metadata.ownerReferences : [])"
    pod = "request.resource.group != '' || request.resource.resource != 'pods'"
    first = "request.operation == 'UPDATE' && request.resource.resource == 'pods'"
    rules = (
        Rule(
            f"({first}) || ({stamped})",
            "the annotation tells KAI since when work runs, and is KAI's to write: take it out",
        ),
        Rule(
            f"{pod} || request.operation == 'UPDATE' || ({written})",
            f"the annotation says what KAI gave the pod, and is KAI's to write: take {GROUP} and its like out",
        ),
        Rule(
            f"!{MEMBERS} || {now} == {before} || {owned}",
            "only the cluster's controllers make an object another's: take ownerReferences out",
        ),
        Rule(
            f"!{MEMBERS} || ([object] + variables.templates).all(t, {_keeps('t')}.all(f,"
            f" f in {list(FINALIZERS)} || f in {_keeps('oldObject')}))",
            "a finalizer that nobody takes off holds an object, a drain and the project for good: take finalizers out",
        ),
        Rule(
            f"([object] + variables.templates).all(t, !{note('t', BATCH)}"
            f" || t.metadata.annotations['{BATCH}'].matches('^[1-9][0-9]{{0,5}}$'))",
            f"the annotation {BATCH} says how many pods start together: write a whole number from 1 on",
        ),
    )
    inner = (
        "(request.resource.resource == 'cronjobs' ? [object.spec.jobTemplate]"
        " : request.resource.resource == 'jobsets' ? object.spec.replicatedJobs.map(j, j.template)"
        " : [])"
    )
    read = Rule(
        f"({first}) || ({known('object', options, SHARED, *STAMPS, *BINDERS, GROUP, old='oldObject')}"
        f" && (variables.templates == variables.before || variables.templates.all(t,"
        f" {known('t', options, SHARED, *BINDERS, GROUP)}))"
        f" && {inner}.all(t, {known('t', options)}))",
        "KAI or NVIDIA's programs read this label or annotation in the place of what the pod asks for: take it out; "
        "a project sets kai.scheduler/queue, kai.scheduler/node-pool, kai.scheduler/topology and its placements",
    )
    owner = Rule(
        f"({first}) || request.resource.resource == 'pods'"
        f" || ({known('object', options, *STAMPS, old='oldObject')} && (variables.templates == variables.before"
        f" || variables.templates.all(t, {known('t', options)})))",
        f"the annotation of the object or of its pods' template is KAI's to write: take {GROUP} and its like out",
    )
    made = f"(request.resource.resource == 'pods' && request.operation == 'CREATE' && {NOT_KAI})"
    conditions = {"by-members": f"{MEMBERS} || {made}"}
    return Policy("appliance-marks", (*rules, read, owner), ANY, conditions, dict(TEMPLATED))


def _keeps(of: str) -> str:
    """CEL: its finalizers."""
    held = f"{of}.metadata.finalizers"
    return f"({of} != null && has({of}.metadata) && has({held}) ? {held} : [])"


def frozen() -> Policy:
    """What a pod was admitted with stays: KAI keeps its group's queue, limits of time read the pod's."""
    same = " && ".join(
        f"{_label('object', key)} == {_label('oldObject', key)}"
        for key in (*PRIORITY_LABELS, PROJECT_LABEL)
    )
    rule = Rule(
        f"{same} && {unchanged()}",
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


def _label(of: str, key: str) -> str:
    """CEL: its label, "" for none."""
    held = f"{of}.metadata.labels"
    return f"(has({held}) && '{key}' in {held} ? {held}['{key}'] : '')"


def services() -> Policy:
    """No traffic of others."""
    rule = Rule(
        "!has(object.spec.externalIPs) || object.spec.externalIPs.size() == 0",
        "externalIPs would draw traffic of others to this project (CVE-2020-8554): take them out",
    )
    inside = Rule(
        "!has(object.spec.type) || object.spec.type in ['ClusterIP', 'ExternalName']",
        "NodePort and LoadBalancer open a port of every host: write type: ClusterIP, "
        "and reach it by kubectl port-forward or ask the administrator for an ingress",
    )
    ports = "(has({0}.spec.ports) ? {0}.spec.ports.size() : 0)"
    few = Rule(
        f"{ports.format('object')} <= {PORTS}"
        f" || (oldObject != null && {ports.format('object')} <= {ports.format('oldObject')})",
        f"each port of a service is written again for its pods: write {PORTS} ports at most, or several services",
    )
    return Policy("appliance-services", (rule, inside, few), (objects("", ["services"], WRITES),))
