"""Policies of volumes and secrets: pods can mount only volumes of their project, and cannot read the registry's key.

This is an allow list, so new volume types of a later Kubernetes are refused.
"""

from appliance.stages.scheduler.queues.admission import (
    EVERY,
    MEMBERS,
    OPERATOR,
    WRITES,
    Policy,
    Rule,
    objects,
    of_templates,
)
from appliance.stages.scheduler.queues.bounds import Sizes
from appliance.stages.scheduler.queues.trees import RESERVED as OURS

PULL_SECRET = "ngc"
VOLUMES = (
    *("configMap", "downwardAPI", "emptyDir", "ephemeral"),
    *("persistentVolumeClaim", "projected", "secret"),
)
SOURCES = ("clusterTrustBundle", "configMap", "downwardAPI", "secret", "serviceAccountToken")
"""Of a projected volume."""
RESERVED = r"^([a-z0-9.-]+[.])?(pv|volume|volumes|storage)([.]alpha|[.]beta)?[.]kubernetes[.]io/.*$"
"""Annotations of claims that Kubernetes' own controllers read: volume.beta.kubernetes.io/storage-class goes before the field."""
LONGEST_TOKEN = 86400
"""Seconds. Kubernetes takes up to 136 years."""
SECRET_TYPES = (
    *("Opaque", "kubernetes.io/basic-auth", "kubernetes.io/dockerconfigjson"),
    *("kubernetes.io/ssh-auth", "kubernetes.io/tls"),
)
"""Not kubernetes.io/service-account-token: such a token never expires."""


def volumes(own: Sizes) -> Policy:
    """An inline volume of nfs, csi and their like is mounted by the host's kubelet, with the host's access: to everybody's files."""
    every = "variables.templates.all(t, !has(t.spec.volumes) || t.spec.volumes.all(v, {0}))"
    empty = "v.emptyDir"
    medium = f"(has({empty}.medium) ? {empty}.medium : '')"
    rules = [
        Rule(
            every.format(f"v.all(k, k in {_listed(('name', *VOLUMES))})"),
            "the pod mounts data outside the project, with the access rights of its host: use only volumes of the types "
            f"{', '.join(VOLUMES)}; for persistent files use a PersistentVolumeClaim",
        ),
        Rule(
            every.format(
                "!has(v.projected) || !has(v.projected.sources) || v.projected.sources.all(s,"
                # A source that this release of Kubernetes does not serve arrives empty.
                f" s.exists(k, k in {_listed(SOURCES)}) && s.all(k, k in {_listed(SOURCES)}))"
            ),
            f"a projected volume can only have the sources {', '.join(SOURCES)}: remove the others",
        ),
        Rule(
            every.format(
                "!has(v.projected) || !has(v.projected.sources) || v.projected.sources.all(s,"
                " !has(s.serviceAccountToken) || !has(s.serviceAccountToken.expirationSeconds)"
                f" || s.serviceAccountToken.expirationSeconds <= {LONGEST_TOKEN})"
            ),
            "a token can be valid outside this cluster until it expires, even after the pod has ended: set "
            f"expirationSeconds to at most {LONGEST_TOKEN}; kubelet renews the token while the pod runs",
        ),
        Rule(
            every.format(f"!has(v.emptyDir) || {medium} in ['', 'Memory']"),
            "emptyDir can only use disk or memory of the host: remove medium, or set it to Memory",
        ),
        Rule(
            every.format(
                # Kubelet takes a size of 0 for none.
                f"!has(v.emptyDir) || {medium} != 'Memory' || (has({empty}.sizeLimit)"
                f" && quantity(string({empty}.sizeLimit)).isGreaterThan(quantity('0'))"
                f" && {_at_most(f'{empty}.sizeLimit', own.memory_volume)})"
            ),
            "an emptyDir of medium Memory uses the memory of its containers: set its sizeLimit to at most "
            f"{own.memory_volume}Mi",
        ),
        Rule(
            every.format("!has(v.ephemeral) || " + _claim("v.ephemeral.volumeClaimTemplate.spec")),
            _CLASS,
        ),
        Rule(
            every.format("!has(v.ephemeral) || " + _plain("v.ephemeral.volumeClaimTemplate")),
            _RESERVED,
        ),
    ]
    if own.most_disk:
        bounded = f"!has({empty}.sizeLimit) || {_at_most(f'{empty}.sizeLimit', own.most_disk)}"
        rules.append(
            Rule(
                every.format(f"!has(v.emptyDir) || {medium} == 'Memory' || {bounded}"),
                f"the sizeLimit of emptyDir is larger than the disk of a host: set at most {own.most_disk}Mi, or remove "
                "it: the ephemeral-storage limit of the containers applies",
            )
        )
    return of_templates("appliance-volumes", *rules, more=True)


_CLASS = (
    "a claim cannot use an existing volume: set a storageClassName (kubectl get storageclass lists them; optional with a "
    "default class), remove volumeName and selector, and do not use a claim of the site as dataSource"
)

_RESERVED = (
    "annotations of volume.kubernetes.io, volume.beta.kubernetes.io and pv.kubernetes.io select the volume of a claim and "
    "are written only by the cluster: remove them, and set the class in storageClassName"
)


def claims() -> Policy:
    """Otherwise, a claim could bind any free volume of the cluster, such as an export for another project.

    Controllers bind claims and write volumeName: their changes pass, but not claims that they create for a StatefulSet or pod.
    """
    new, old = (f"(has({o}.spec.volumeName) ? {o}.spec.volumeName : '')" for o in _BOTH)
    classes = [f"(has({o}.spec.storageClassName) ? {o}.spec.storageClassName : '')" for o in _BOTH]
    rule = Rule(
        f"request.operation == 'UPDATE' ? {new} == {old} && {classes[0]} == {classes[1]}"
        f" : has(object.spec.storageClassName) && {_claim('object.spec')}",
        _CLASS,
    )
    notes = ("object.metadata.annotations", "oldObject.metadata.annotations")
    kept = " && ".join(
        f"(!has({one}) || {one}.all(k, !k.matches({RESERVED!r})"
        f" || (has({other}) && k in {other} && {one}[k] == {other}[k])))"
        for one, other in (notes, notes[::-1])
    )
    marked = Rule(
        f"request.operation == 'UPDATE' ? {kept} : {_plain('object')}",
        _RESERVED,
    )
    conditions = {
        "not-bound-by-controllers": f"request.operation == 'CREATE' || {MEMBERS}",
        "not-by-operators": f"!{OPERATOR}",
    }
    on = (objects("", ["persistentvolumeclaims"], WRITES),)
    return Policy("appliance-claims", (rule, marked), on, conditions)


def claim_templates() -> Policy:
    """For a StatefulSet: its claims are judged, too, but only in an event that users do not see."""
    held = "(has({0}.spec.volumeClaimTemplates) ? {0}.spec.volumeClaimTemplates : [])"
    new, old = (held.format(of) for of in _BOTH)
    same = f"(request.operation == 'UPDATE' && {new} == {old})"
    rules = (
        Rule(f"{same} || {new}.all(c, {_claim('c.spec')})", _CLASS),
        Rule(f"{same} || {new}.all(c, {_plain('c')})", _RESERVED),
        # The controller copies both to claims, which it alone makes.
        Rule(
            f"{same} || {new}.all(c, !has(c.metadata.finalizers) && !has(c.metadata.ownerReferences))",
            "a finalizer or owner can block the deletion of a claim and its project: remove finalizers and ownerReferences from volumeClaimTemplates",
        ),
        # Its pods mount what is called as the claim, the StatefulSet and a number together, also where somebody else made it.
        Rule(
            f"{same} || {new}.all(c, !(c.metadata.name + '-').startsWith('{OURS}'))",
            f"names of claims that begin with {OURS} are reserved for the site: choose another name",
        ),
    )
    on = (objects("apps", ["statefulsets"], WRITES),)
    return Policy("appliance-claim-templates", rules, on, {"not-by-operators": f"!{OPERATOR}"})


_BOTH = ("object", "oldObject")


def _claim(spec: str) -> str:
    copied = " && ".join(
        f"(!has({spec}.{source}) || !{spec}.{source}.name.startsWith('{OURS}'))"
        for source in ("dataSource", "dataSourceRef")
    )
    return (
        f"(!has({spec}.volumeName) && !has({spec}.selector) && {copied}"
        f" && (!has({spec}.storageClassName) || {spec}.storageClassName != ''))"
    )


def _plain(claim: str) -> str:
    """CEL: without annotations of the controllers'."""
    notes = f"{claim}.metadata.annotations"
    return f"(!has({claim}.metadata) || !has({notes}) || {notes}.all(k, !k.matches({RESERVED!r})))"


def pull_secret() -> Policy:
    """The key of the registry is kubelet's, which pulls images by it; a container that reads it has the site's account."""
    other = f"{{0}}.name != '{PULL_SECRET}'"

    def unnamed(of: str) -> str:
        return f"(!has({of}) || !has({of}.name) || {other.format(of)})"

    mounted = (
        f"(!has(v.secret) || !has(v.secret.secretName) || v.secret.secretName != '{PULL_SECRET}')"
        " && (!has(v.projected) || !has(v.projected.sources)"
        f" || v.projected.sources.all(s, {unnamed('s.secret')}))"
    )
    return of_templates(
        "appliance-pull-secret",
        Rule(
            f"variables.templates.all(t, !has(t.spec.volumes) || t.spec.volumes.all(v, {mounted}))",
            f"the secret {PULL_SECRET} is only for pulling images: remove it from volumes, and use it in imagePullSecrets",
        ),
        Rule(
            f"variables.templates.all(t, {EVERY}.all(c,"
            " (!has(c.env) || c.env.all(e, !has(e.valueFrom)"
            f" || {unnamed('e.valueFrom.secretKeyRef')}))"
            f" && (!has(c.envFrom) || c.envFrom.all(e, {unnamed('e.secretRef')}))))",
            f"the secret {PULL_SECRET} is only for pulling images: remove it from env and envFrom, and use it in "
            "imagePullSecrets",
        ),
        more=True,
    )


def secrets() -> Policy:
    """Members make secrets. An answer to a change holds the whole secret, so the pull secret takes none from them."""
    one = "(object != null ? object : oldObject)"
    rules = (
        Rule(
            f"{one}.metadata.name != '{PULL_SECRET}'",
            f"the secret {PULL_SECRET} is managed by appliance queue apply: choose another name",
        ),
        Rule(
            "request.operation == 'DELETE' || !has(object.type)"
            f" || object.type in {_listed(SECRET_TYPES)}"
            " || (request.operation == 'UPDATE' && object.type == oldObject.type)",
            f"a project's secret must have one of the types {', '.join(SECRET_TYPES)}; "
            "a projected volume with serviceAccountToken has a token that expires",
        ),
        Rule(
            "request.operation != 'DELETE' || request.options == null"
            " || ((!has(request.options.dryRun) || request.options.dryRun.size() == 0)"
            " && (!has(request.options.propagationPolicy) || request.options.propagationPolicy == 'Background')"
            " && (!has(request.options.orphanDependents) || !request.options.orphanDependents))",
            "the response to such a deletion contains the secret, which members cannot read: delete it with "
            "--cascade=background and without --dry-run",
        ),
    )
    on = (objects("", ["secrets"], [*WRITES, "DELETE"]),)
    return Policy(
        "appliance-secrets", rules, on, {"by-members": MEMBERS, "not-by-operators": f"!{OPERATOR}"}
    )


def _at_most(quantity: str, mib: int) -> str:
    return f"quantity(string({quantity})).compareTo(quantity('{mib}Mi')) <= 0"


def _listed(names: tuple[str, ...]) -> str:
    return f"[{', '.join(repr(name) for name in names)}]"
