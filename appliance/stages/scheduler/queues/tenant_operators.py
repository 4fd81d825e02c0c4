"""Policies of what operators of add-ons do with a member's words and rights of their own.

An operator works for all projects, so its rights are those of all of them together.
"""

from appliance.stages.scheduler.queues.admission import WRITES, Policy, Rule, objects

SPARK = "sparkoperator.k8s.io"
ROUTES = ("grpcroutes", "httproutes", "tcproutes", "tlsroutes", "udproutes")
PLACES = (
    r"^(abfss?|cosn?|gs|hdfs|https?|local|o3fs|obs|ofs|oss|s3[an]?|viewfs|wasbs?|webhdfs):/[^,]*$"
)
"""Where files of an application may lie. A name without a scheme, or with file:, is one of the operator's own container."""
FILES = ("archives", "files", "jars", "pyFiles")
FETCHED = ("excludePackages", "packages", "repositories")
"""spark-submit fetches packages itself and puts them on its own class path, also in mode cluster (Spark 4.0, SparkSubmit.scala)."""
WORD = r"^[A-Za-z0-9._-]+$"
"""A setting's name. spark-submit splits at the first =."""
OWN = r"^spark[.](archives|files|jars|jars[.].*|kerberos[.].*|master|submit[.].*|yarn[.].*)$"
"""Settings by which spark-submit, in the operator's container, chooses where it works and what it reads."""
CLUSTER = "spark.kubernetes."
GIVEN = (
    r"^spark[.]kubernetes[.]((driverEnv|executorEnv|node[.]selector|allocation|pyspark)[.].+"
    r"|(driver|executor)[.](annotation|label|limit|node[.]selector|request|secretKeyRef|secrets|service|volumes)[.].+"
    r"|(driver[.]|executor[.])?container[.]image([.].+)?"
    r"|executor[.](deleteOnTermination|eventProcessingInterval|missingPodDetectDelta|useDriverPodPriority)"
    r"|(driver[.]|executor[.])?memoryOverheadFactor|local[.]dirs[.]tmpfs|appKillPodDeletionGracePeriod)$"
)
"""Of the settings of Kubernetes the ones that say what the pods are, which are judged when they are made (Spark 4.0)."""


def submissions() -> Policy:
    """spark-submit runs in the operator's container, with the operator's account, and its own settings stand before the member's."""
    listed = ", ".join(f"'{name}'" for name in FILES)
    files = f"[{listed}].all(k, !(k in variables.deps) || variables.deps[k].all(f, f.matches({PLACES!r})))"
    rules = (
        Rule(
            "!has(variables.app.mode) || variables.app.mode == 'cluster'",
            "in this mode the program would run in the operator's own pod: write mode: cluster",
        ),
        Rule(
            f"(!has(variables.app.mainApplicationFile) || variables.app.mainApplicationFile.matches({PLACES!r}))"
            f" && {files}",
            "the file would be one of the operator's own container: write it with its scheme, as local:///opt/app/main.py "
            "for one of the image, https:// or s3a:// for others",
        ),
        Rule(
            f"variables.settings.all(k, k.matches({WORD!r}) && !k.matches({OWN!r})"
            f" && (!k.startsWith('{CLUSTER}') || k.matches({GIVEN!r})))",
            "the setting of sparkConf says where the operator itself works or what it reads: take it out; "
            "namespace, account and templates of the pods are those of the application",
        ),
        Rule(
            f"{list(FETCHED)}.all(k, !(k in variables.deps))",
            "packages would run in the operator's own container: put them into the image, or name their files under deps.jars",
        ),
        Rule(
            "!has(variables.app.kerberos)",
            "the operator would read the keys of Kerberos for spark-submit: mount a Secret in driver and executor instead",
        ),
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
    )
    return Policy("appliance-submissions", rules, on, {}, variables)


def routes() -> Policy:
    """Members have no right to an Ingress, whose author chooses the host name: an operator makes none for them either."""
    cluster = (
        "(request.resource.resource == 'rayclusters' ? [object.spec]"
        " : request.resource.resource == 'rayjobs' ? (has(object.spec.rayClusterSpec) ? [object.spec.rayClusterSpec] : [])"
        " : (has(object.spec.rayClusterConfig) ? [object.spec.rayClusterConfig] : []))"
    )
    owned = "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller)"
    rules = (
        Rule(
            f"request.resource.group == 'ray.io' || !({owned})",
            "an operator would take a host name for a project: ask the administrator for an Ingress",
        ),
        Rule(
            f"request.resource.group != 'ray.io' || {cluster}.all(c, !has(c.headGroupSpec.enableIngress)"
            " || !c.headGroupSpec.enableIngress)",
            "Ray's operator would take a host name for the project: take enableIngress out, and reach the dashboard by "
            "kubectl port-forward or ask the administrator for an Ingress",
        ),
    )
    on = (
        objects("networking.k8s.io", ["ingresses"], WRITES),
        objects("gateway.networking.k8s.io", list(ROUTES), WRITES),
        objects("ray.io", ["rayclusters", "rayjobs", "rayservices"], WRITES),
    )
    return Policy("appliance-routes", rules, on)
