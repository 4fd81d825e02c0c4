"""Policies of a project's pods: only counted GPUs, no access to the host, bounded grace periods, no metadata of the cluster's programs."""

from appliance.stages.scheduler.queues.admission import (
    ANY,
    BY_CONTROLLERS,
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
from appliance.stages.scheduler.queues.tenant_queues import (
    BY_HAND,
    PRIORITY_LABELS,
    PROJECT_LABEL,
)
from appliance.stages.scheduler.site import SchedulerOptions

LONGEST_GRACE = 600
"""Seconds. Evicted work keeps its GPUs for its grace, and their owner waits for it."""

SHARED = "runai/shared-gpu-configmap"
"""The variable with a pod's part of a GPU. KAI's admission writes it as the pod's author, before policies run (seen, v0.12.0)."""
BINDERS = ("received-resource-type", "runai-gpu-group", SHARED)
"""What KAI's admission and binder write on pods, and read again."""
STAMPS = ("kai.scheduler/last-start-timestamp", "kai.scheduler/stale-podgroup-timestamp")
"""The pod-grouper copies an owner's annotations to its group, where the scheduler reads since when the work runs (v0.12.0)."""
GROUP = "pod-group-name"
FINALIZERS = ("foregroundDeletion", "orphan")
"""Those that a controller of the cluster itself takes off whatever has them."""
CLAIMED = "kubernetes.io/pvc-protection"
"""The API server adds it to each claim, and its controller removes it only from claims."""
INSIDE = r"([.]svc([.]|$)|(^|[.])cluster[.]local[.]?$|^[^.]*[.]?$|^[0-9.]+$)"
"""Names of the cluster's own services and pods, and addresses."""
PORTS = 20
"""Of a Service. Where a named port is another number in each pod, its controller writes all ports again for every pod."""
SPARK = "spark"
"""The account of Spark's drivers in each project."""
WRITTEN = ("jobsets", "services")
"""Kinds whose labels, annotations and finalizers operators copy from a member's object."""
PLACED = ("tolerations", "nodeSelector", "affinity", "terminationGracePeriodSeconds")
"""Mutable fields of a pod's spec, at least before it is scheduled; they are judged at creation."""


VISIBLE = "NVIDIA_VISIBLE_DEVICES"
NONE = "['void', 'none']"
"""Values that hide all GPUs from a container, independent of its image."""
OTHERS = (
    *("NVIDIA_IMEX_CHANNELS", "NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES"),
    *("NVIDIA_MOFED", "NVIDIA_NVSWITCH"),
)
"""By these, NVIDIA's toolkit gives a container with a GPU further devices: all adapters of the fabric, NVLink switches, channels
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
"""CEL: created by Ray's operator from a judged template, with an additional init container. Templates of Spark's and
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
            f"{VISIBLE} would make unassigned GPUs visible to the container: remove it from env, or set it to void; the "
            "GPUs of nvidia.com/gpu under resources.limits are visible automatically",
        ),
        Rule(
            f"variables.templates.all(t, {EVERY}.all(c, !has(c.env) || c.env.all(e,"
            f" !(e.name in {list(OTHERS)}) || (!has(e.valueFrom)"
            f" && (!has(e.value) || e.value in {OFF})))))",
            f"{', '.join(OTHERS)} would give the container devices that its project does not have: remove them from env",
        ),
        Rule(
            f"variables.templates.all(t, {EVERY}.all(c, !has(c.envFrom) || c.envFrom.all(e,"
            f" !has(e.prefix) || e.prefix == '' || {[VISIBLE, *OTHERS]}.all(n, !n.startsWith(e.prefix)))))",
            "the prefix under envFrom could produce NVIDIA_VISIBLE_DEVICES or a similar variable: choose another prefix",
        ),
        Rule(
            f"variables.templates.all(t, {EVERY}.all(c,"
            # Kubelet mounts a file there.
            f" (!has(c.terminationMessagePath) || !c.terminationMessagePath.contains('{DEVICES}'))"
            f" && (!has(c.volumeMounts) || c.volumeMounts.all(m, !m.mountPath.contains('{DEVICES}')))"
            f" && (!has(c.volumeDevices) || c.volumeDevices.all(m, !m.devicePath.contains('{DEVICES}')))))",
            f"a mount at {DEVICES} would make unassigned GPUs visible to the container: choose another mountPath",
        ),
        Rule(
            f"variables.templates.all(t, !{_gpu_runtime(given)} || {_dark(own)}"
            f".size() <= ({given} && !{EVERY}.exists(c, has(c.env) && c.env.exists(e,"
            f" e.name == '{VISIBLE}' && {own})) ? 1 : 0))",
            "the runtime class nvidia, which KAI gives each pod with GPUs, makes GPUs visible to a container that requests "
            f"none: request nvidia.com/gpu under resources.limits, or set env: [{{name: {VISIBLE}, value: void}}] in each container and init container that needs none "
            f"(kubectl debug --env {VISIBLE}=void)",
        ),
        Rule(
            f"variables.templates.all(t, {EVERY}.all(c, !has(c.resources) || !has(c.resources.limits)"
            " || c.resources.limits.all(r, !r.startsWith('nvidia.com/') || r == 'nvidia.com/gpu'"
            " || r.startsWith('nvidia.com/mig-'))))",
            "the queues do not count this kind of GPU: request nvidia.com/gpu or a MIG instance nvidia.com/mig-…",
        ),
        Rule(
            "variables.templates.all(t, !has(t.spec.initContainers)"
            f" || !t.spec.initContainers.exists(c, {ASKS}))",
            "GPUs of init containers are not counted in addition to those of containers: request them in containers",
        ),
        Rule(
            "variables.templates.all(t, !has(t.spec.resourceClaims) || t.spec.resourceClaims.size() == 0)",
            "devices of resource claims bypass the queues: request nvidia.com/gpu under resources.limits",
        ),
    ]
    if not shared:
        none = " && ".join(f"!{note('t', key)}" for key in PARTS)
        rules.append(
            Rule(
                f"variables.templates.all(t, {none})",
                "GPUs are not shared at this site: remove the annotations gpu-fraction and gpu-memory, and request a whole "
                "GPU or a MIG instance",
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
    """CEL: containers without a GPU, whose images decide which GPUs are visible, including those of kubectl debug."""
    boxes = (
        "(t.spec.containers + (has(t.spec.initContainers) ? t.spec.initContainers.filter(c,"
        " (has(c.restartPolicy) && c.restartPolicy == 'Always')"
        f" || !(request.resource.resource == 'pods' && {OF_RAY})) : [])"
        " + (has(t.spec.ephemeralContainers) ? t.spec.ephemeralContainers : []))"
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
            f"{VISIBLE} and {', '.join(OTHERS)} would give containers unassigned devices: remove the key",
        ),
        Rule(
            "!object.metadata.name.contains('-shared-gpu-')",
            "objects with -shared-gpu- in their name assign parts of GPUs and are managed by KAI: choose another name",
        ),
    )
    return Policy("appliance-gpu-words", rules, on, {"not-by-kai": NOT_KAI})


def host(options: SchedulerOptions) -> Policy:
    """Also with pod_security: privileged, which RDMA needs: a pod with access to the host has all of its GPUs."""
    return of_templates("appliance-host", *baseline(options), more=True)


def end() -> Policy:
    """That who is evicted goes. A probe's own grace takes the place of the pod's where the probe fails."""
    probes = " && ".join(
        f"(!has(c.{probe}) || !has(c.{probe}.terminationGracePeriodSeconds)"
        f" || c.{probe}.terminationGracePeriodSeconds <= {LONGEST_GRACE})"
        for probe in ("livenessProbe", "startupProbe")
    )
    return of_templates(
        "appliance-end",
        Rule(
            f"variables.templates.all(t, {EVERY}.all(c, {probes}))",
            "a container that fails its probe keeps its GPUs for the probe's grace: set terminationGracePeriodSeconds to "
            f"at most {LONGEST_GRACE} in livenessProbe and startupProbe",
        ),
        Rule(
            "variables.templates.all(t, !has(t.spec.terminationGracePeriodSeconds)"
            f" || t.spec.terminationGracePeriodSeconds <= {LONGEST_GRACE})",
            "work that is evicted keeps its GPUs for its grace while their owner waits: set terminationGracePeriodSeconds "
            f"to at most {LONGEST_GRACE}, and save data within that time",
        ),
    )


def leaving() -> Policy:
    """That who is deleted goes: a grace of the deletion's own takes the place of the pod's, and limits and drains see it as gone."""
    rule = Rule(
        "request.options == null || !has(request.options.gracePeriodSeconds)"
        f" || request.options.gracePeriodSeconds <= {LONGEST_GRACE}",
        f"a pod that is deleted keeps its GPUs for the grace: delete it with at most --grace-period={LONGEST_GRACE}",
    )
    on = (objects("", ["pods"], ["DELETE"]),)
    return Policy("appliance-leaving", (rule,), on, {"by-members": MEMBERS})


def marks(options: SchedulerOptions) -> Policy:
    """Metadata that only the cluster's programs may write."""
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
        # As kubectl create job --from=cronjob sends it; its queue is judged by appliance-manual.
        f" || (request.operation == 'CREATE' && {BY_HAND})"
    )
    before = "(oldObject != null && has(oldObject.metadata.ownerReferences) ? oldObject.metadata.ownerReferences : [])"
    now = "(has(object.metadata.ownerReferences) ? object.metadata.ownerReferences : [])"
    claim = "request.resource.group == '' && request.resource.resource == 'persistentvolumeclaims'"
    pod = "request.resource.group != '' || request.resource.resource != 'pods'"
    first = "request.operation == 'UPDATE' && request.resource.resource == 'pods'"
    rules = (
        Rule(
            f"({first}) || ({stamped})",
            "the annotation is the start time of work, which only KAI writes: remove it",
        ),
        Rule(
            f"{pod} || request.operation == 'UPDATE' || ({written})",
            f"the annotation records what KAI assigned to the pod, and only KAI writes it: remove {GROUP} and similar ones",
        ),
        Rule(
            f"!{MEMBERS} || {now} == {before} || {owned}",
            "only the cluster's controllers set owners of objects: remove ownerReferences",
        ),
        Rule(
            f"{BY_CONTROLLERS} || (variables.owners + variables.templates).all(t, {_keeps('t')}.all(f,"
            f" f in {list(FINALIZERS)} || (f == '{CLAIMED}' && {claim}) || f in {_keeps('oldObject')}))",
            "a finalizer that is never removed blocks the deletion of the object, drains and the project: remove finalizers",
        ),
        Rule(
            f"(variables.owners + variables.templates).all(t, !{note('t', BATCH)}"
            f" || t.metadata.annotations['{BATCH}'].matches('^[1-9][0-9]{{0,5}}$'))",
            f"the annotation {BATCH} is the number of pods that start together: set a whole number from 1",
        ),
    )
    read = Rule(
        f"({first}) || ({known('object', options, SHARED, *STAMPS, *BINDERS, GROUP, old='oldObject')}"
        f" && (variables.templates == variables.before || variables.templates.all(t,"
        f" {known('t', options, SHARED, *BINDERS, GROUP)}))"
        f" && variables.owners.all(t, t == object || {known('t', options)}))",
        "KAI or NVIDIA's programs read this label or annotation instead of the pod's requests: remove it; a project can "
        "set kai.scheduler/queue, kai.scheduler/node-pool, kai.scheduler/topology and its placements",
    )
    owner = Rule(
        f"({first}) || request.resource.resource == 'pods'"
        f" || ({known('object', options, *STAMPS, old='oldObject')} && (variables.templates == variables.before"
        f" || variables.templates.all(t, {known('t', options)})))",
        f"the annotation of the object or of its pod template is written only by KAI: remove {GROUP} and similar ones",
    )
    # An operator writes what a member told it on pods and services, and on the JobSet that KAI takes for their owner. It changes the
    # last two later: Trainer a JobSet that waits, by the runtimePatches of its TrainJob; Ray's operator the service of a head.
    written_by_others = (
        f"request.resource.resource in {list(WRITTEN)}"
        f" || (request.operation == 'CREATE' && request.resource.resource == 'pods')"
    )
    made = f"(({written_by_others}) && {NOT_KAI})"
    conditions = {"by-members": f"{MEMBERS} || {made}"}
    return Policy("appliance-marks", (*rules, read, owner), ANY, conditions, dict(TEMPLATED))


def _keeps(of: str) -> str:
    """CEL: its finalizers."""
    held = f"{of}.metadata.finalizers"
    return f"({of} != null && has({of}.metadata) && has({held}) ? {held} : [])"


def frozen() -> Policy:
    """Admitted values cannot change: KAI uses the queue of the pod's group, time limits that of the pod."""
    same = " && ".join(
        f"{_label('object', key)} == {_label('oldObject', key)}"
        for key in (*PRIORITY_LABELS, PROJECT_LABEL)
    )
    rule = Rule(
        f"{same} && {unchanged()}",
        "queue, pool, priority and GPUs of a pod cannot be changed: delete the pod, and create it in the other queue",
    )
    place = " && ".join(
        f"(has(object.spec.{key}) == has(oldObject.spec.{key})"
        f" && (!has(object.spec.{key}) || object.spec.{key} == oldObject.spec.{key}))"
        for key in PLACED
    )
    placed = Rule(
        place,
        f"{', '.join(PLACED)} of a pod cannot be changed: delete the pod, and create it again",
    )
    on = (objects("", ["pods"], ["UPDATE"]),)
    return Policy("appliance-frozen", (rule, placed), on, {"by-members": MEMBERS})


def _label(of: str, key: str) -> str:
    """CEL: its label, "" for none."""
    held = f"{of}.metadata.labels"
    return f"(has({held}) && '{key}' in {held} ? {held}['{key}'] : '')"


def services() -> Policy:
    """No traffic of others, and no names of others: an operator that queries a project's service would follow that name."""
    named = "(has({0}.spec.externalName) ? {0}.spec.externalName : '')"
    new, old = named.format("object"), named.format("oldObject")
    outside = Rule(
        f"!has(object.spec.externalName) || (oldObject != null && {new} == {old})"
        f" || !object.spec.externalName.matches({INSIDE!r})",
        "externalName is a service or pod of the cluster, which would appear as this project's: set type: ClusterIP and a "
        "selector of the project's pods, or a name outside the cluster",
    )
    rule = Rule(
        "!has(object.spec.externalIPs) || object.spec.externalIPs.size() == 0",
        "externalIPs would redirect traffic of others to this project (CVE-2020-8554): remove them",
    )
    inside = Rule(
        "!has(object.spec.type) || object.spec.type in ['ClusterIP', 'ExternalName']",
        "NodePort and LoadBalancer open a port of every host: set type: ClusterIP, and use kubectl port-forward, or ask the administrator for an ingress",
    )
    ports = "(has({0}.spec.ports) ? {0}.spec.ports.size() : 0)"
    few = Rule(
        f"{ports.format('object')} <= {PORTS}"
        f" || (oldObject != null && {ports.format('object')} <= {ports.format('oldObject')})",
        f"each port of a service is written again for its pods: use at most {PORTS} ports, or several services",
    )
    return Policy(
        "appliance-services", (rule, inside, few, outside), (objects("", ["services"], WRITES),)
    )
