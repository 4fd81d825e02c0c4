"""Policies of what operators of add-ons do with a member's words and rights of their own.

An operator works for all projects, so its rights are those of all of them together.
"""

from dataclasses import replace

from appliance.stages.scheduler.queues.admission import MEMBERS, WRITES, Policy, Rule, objects

SPARK, RAY = "sparkoperator.k8s.io", "ray.io"
BY_HTTP = "HTTPMode"
"""Ray's operator sends the job to the head's dashboard, and follows where that sends it (KubeRay 1.6, dashboard_httpclient.go). Its own
requests are let into every project. In the other modes a pod of the project sends it."""
ROUTES = ("grpcroutes", "httproutes", "tcproutes", "tlsroutes", "udproutes")
POLICIES = "networkpolicies"
PLACES = (
    r"^(abfss?|cosn?|gs|hdfs|https?|local|o3fs|obs|ofs|oss|s3[an]?|viewfs|wasbs?|webhdfs):/[^,]*$"
)
"""Where files of an application may lie. A name without a scheme, or with file:, is one of the operator's own container."""
FILES = ("archives", "files", "jars", "pyFiles")
FETCHED = ("excludePackages", "packages", "repositories")
"""spark-submit fetches packages itself and puts them on its own class path, also in mode cluster (Spark 4.0, SparkSubmit.scala)."""
WORD = r"^[A-Za-z0-9._-]+$"
"""A setting's name. spark-submit splits at the first =."""
HADOOP = r"^hadoop[.](kerberos|proxyuser|security)[.].*"
"""Of the settings of Hadoop those of keys, of passwords' files and of whom it acts for."""
OWN = (
    r"^spark[.](archives|files|jars|jars[.].*|kerberos[.].*|master|submit[.].*|yarn[.].*"
    r"|hadoop[.]hadoop[.](kerberos|proxyuser|security)[.].*)$"
)
"""Settings that change where spark-submit in the operator's container works and what it reads."""
CLUSTER = "spark.kubernetes."
GIVEN = (
    r"^spark[.]kubernetes[.]((driverEnv|executorEnv|node[.]selector|allocation|pyspark)[.].+"
    r"|(driver|executor)[.](annotation|label|limit|node[.]selector|request|secretKeyRef|secrets|service|volumes)[.].+"
    r"|(driver[.]|executor[.])?container[.]image([.].+)?"
    r"|executor[.](deleteOnTermination|eventProcessingInterval|missingPodDetectDelta|useDriverPodPriority)"
    r"|(driver[.]|executor[.])?memoryOverheadFactor|local[.]dirs[.]tmpfs|appKillPodDeletionGracePeriod)$"
)
"""Settings of Kubernetes that describe pods, which are judged when they are created (Spark 4.0)."""


def submissions() -> Policy:
    """What an operator runs or sends itself: spark-submit in its own container, with its account; jobs to the dashboards of Ray."""
    listed = ", ".join(f"'{name}'" for name in FILES)
    files = f"[{listed}].all(k, !(k in variables.deps) || variables.deps[k].all(f, f.matches({PLACES!r})))"
    rules = (
        Rule(
            "!has(variables.app.mode) || variables.app.mode == 'cluster'",
            "in this mode the program would run in the operator's pod: set mode: cluster",
        ),
        Rule(
            f"(!has(variables.app.mainApplicationFile) || variables.app.mainApplicationFile.matches({PLACES!r}))"
            f" && {files}",
            "the file would be read from the operator's container: add its scheme, such as local:///opt/app/main.py for a "
            "file of the image, or https:// or s3a://",
        ),
        Rule(
            f"variables.settings.all(k, k.matches({WORD!r}) && !k.matches({OWN!r})"
            f" && (!k.startsWith('{CLUSTER}') || k.matches({GIVEN!r})))",
            "the setting of sparkConf changes where the operator works or what it reads: remove it; namespace, account and "
            "pod templates are those of the application",
        ),
        Rule(
            f"{list(FETCHED)}.all(k, !(k in variables.deps))",
            "packages would run in the operator's container: add them to the image, or list their files under deps.jars",
        ),
        Rule(
            "!has(variables.app.kerberos) && !has(variables.app.proxyUser)"
            " && (!has(variables.app.hadoopConf)"
            f" || variables.app.hadoopConf.all(k, k.matches({WORD!r}) && !k.matches({HADOOP!r})))",
            "the operator would use its own keys or act as another user: remove kerberos, proxyUser and settings of "
            "hadoop.security, and mount a Secret in driver and executor",
        ),
    )
    sent = Rule(
        f"request.resource.group != '{RAY}' || !has(object.spec.submissionMode)"
        f" || object.spec.submissionMode != '{BY_HTTP}'",
        "in this mode Ray's operator could send the job to a cluster of another project: set submissionMode: K8sJobMode, "
        "and under submitterPodTemplate a pod with the queue label of the head",
    )
    of_spark = tuple(
        replace(rule, expression=f"request.resource.group != '{SPARK}' || ({rule.expression})")
        for rule in rules
    )
    variables = {
        "app": "request.resource.resource == 'scheduledsparkapplications' ? object.spec.template : object.spec",
        "settings": "has(variables.app.sparkConf) ? variables.app.sparkConf : {}",
        "deps": "has(variables.app.deps) ? variables.app.deps : {}",
    }
    on = (
        objects(
            SPARK, ["scheduledsparkapplications", "sparkapplications", "sparkconnects"], WRITES
        ),
        objects(RAY, ["rayjobs"], WRITES),
    )
    return Policy("appliance-submissions", (*of_spark, sent), on, {}, variables)


def routes() -> Policy:
    """Members have no right to an Ingress, whose author chooses the host name, nor to a NetworkPolicy: what one of a pod's policies
    opens, no other one closes. Operators make neither for them (NetworkPolicies: KubeRay 1.7, feature gate RayClusterNetworkPolicy).
    """
    cluster = (
        "(request.resource.resource == 'rayclusters' ? [object.spec]"
        " : request.resource.resource == 'rayjobs' ? (has(object.spec.rayClusterSpec) ? [object.spec.rayClusterSpec] : [])"
        " : (has(object.spec.rayClusterConfig) ? [object.spec.rayClusterConfig] : []))"
    )
    owned = "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller)"
    ray = "request.resource.group != 'ray.io' || "
    rules = (
        Rule(
            f"request.resource.resource == '{POLICIES}' || request.resource.group == 'ray.io' || !({owned})",
            "an operator would reserve a host name for a project: ask the administrator for an Ingress",
        ),
        Rule(
            f"request.resource.resource != '{POLICIES}' || !({owned})",
            "an operator would open connections that the project's NetworkPolicies block: ask the administrator for a NetworkPolicy",
        ),
        Rule(
            # Operators take their finalizers off clusters that are older than this rule.
            f"!{MEMBERS} || {ray}{cluster}.all(c, !has(c.networkPolicy))",
            "Ray's operator would open connections that the project's NetworkPolicies block: remove networkPolicy; pods of "
            "other projects cannot reach the cluster",
        ),
        Rule(
            f"{ray}{cluster}.all(c, !has(c.headGroupSpec.enableIngress)"
            " || !c.headGroupSpec.enableIngress)",
            "Ray's operator would reserve a host name for the project: remove enableIngress, and use kubectl port-forward "
            "for the dashboard, or ask the administrator for an Ingress",
        ),
    )
    on = (
        objects("networking.k8s.io", ["ingresses", POLICIES], WRITES),
        objects("gateway.networking.k8s.io", list(ROUTES), WRITES),
        objects("ray.io", ["rayclusters", "rayjobs", "rayservices"], WRITES),
    )
    return Policy("appliance-routes", rules, on)
