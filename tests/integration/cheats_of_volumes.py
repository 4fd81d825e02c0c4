"""Cheats that reach files of others, the key of the registry, or a host's memory and disk."""

from tests.integration.cheat_parts import (
    ALPHA,
    BETA_CLASS,
    DECOY,
    FOREIGN_VOLUMES,
    MINE,
    RANGE,
    RBAC,
    VOID,
    Cheat,
    claim,
    deleted,
    ephemeral,
    kept,
    key_in_env,
    noted_claim,
    noted_ephemeral,
    place,
    pod,
    pods,
    refused_pod,
    token_of,
)

LATE = [*VOID["env"], *key_in_env()["env"]]
OF_SITE = {"kind": "PersistentVolumeClaim", "name": "appliance-tree-home"}
CHEATS: tuple[Cheat, ...] = (
    # Files of the site: tests/integration/tree_cheats.py has more of these.
    refused_pod(
        "a shared tree of a project that has none",
        "appliance-trees",
        pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "appliance-tree-home"}}]),
    ),
    # Files of others.
    *(
        refused_pod(
            f"a volume of {kind}", "appliance-volumes", pod(volumes=[{"name": "v", kind: source}])
        )
        for kind, source in FOREIGN_VOLUMES.items()
    ),
    *(
        refused_pod(
            f"an emptyDir {name}",
            "appliance-volumes",
            pod(volumes=[{"name": "v", "emptyDir": given}]),
        )
        for name, given in (
            ("of memory without a size", {"medium": "Memory"}),
            ("of memory of size 0, which is without bound", {"medium": "Memory", "sizeLimit": "0"}),
            ("of memory larger than a host", {"medium": "Memory", "sizeLimit": "2Ti"}),
            ("of huge pages", {"medium": "HugePages"}),
            ("of disk larger than a host's", {"sizeLimit": "10Ti"}),
        )
    ),
    refused_pod(
        "an ephemeral claim of a volume that is there",
        "appliance-volumes",
        pod(volumes=[ephemeral(volumeName="homes")]),
    ),
    refused_pod(
        "an ephemeral claim without a class",
        "appliance-volumes",
        pod(volumes=[ephemeral(storageClassName="")]),
    ),
    claim("a claim of a volume that is there", volumeName="homes"),
    noted_claim("a claim without a class, by the annotation that goes before it", BETA_CLASS),
    *(
        noted_claim(f"a claim that says {key}", {key: "x"})
        for key in (
            "pv.kubernetes.io/bind-completed",
            "pv.kubernetes.io/bound-by-controller",
            "volume.kubernetes.io/selected-node",
            "volume.kubernetes.io/storage-provisioner",
            "volume.beta.kubernetes.io/mount-options",
            "volume.alpha.kubernetes.io/storage-class",
        )
    ),
    *(
        Cheat(
            f"{key} written on a claim that waits",
            "appliance-claims",
            f"/api/v1/namespaces/{ALPHA}/persistentvolumeclaims/{MINE}",
            {"metadata": {"annotations": {key: ""}}},
            "PATCH",
        )
        for key in (*BETA_CLASS, "volume.kubernetes.io/selected-node")
    ),
    refused_pod(
        "an ephemeral claim without a class, by the annotation that goes before it",
        "appliance-volumes",
        pod(volumes=[noted_ephemeral(BETA_CLASS)]),
    ),
    *(
        Cheat(
            f"a StatefulSet's claims {name}",
            "appliance-claim-templates",
            place("StatefulSet"),
            made,
        )
        for name, made in (
            ("of a volume that is there", kept(volumeName="homes")),
            ("without a class", kept(storageClassName="")),
            ("that select a volume", kept(selector={"matchLabels": {"a": "b"}})),
            ("without a class, by the annotation that goes before it", kept(BETA_CLASS)),
            ("that say they are bound", kept({"pv.kubernetes.io/bind-completed": "yes"})),
            ("that copy one of the site's", kept(dataSource=OF_SITE)),
            ("that a finalizer holds", kept(finalizers=["a.example/keep"])),
            ("that somebody else seems to own", kept(ownerReferences=DECOY)),
        )
    ),
    claim("a claim that copies one of the site's", dataSource=OF_SITE),
    claim("a claim that is filled from one of the site's", dataSourceRef=OF_SITE),
    refused_pod(
        "an ephemeral claim that copies one of the site's",
        "appliance-volumes",
        pod(volumes=[ephemeral(dataSource=OF_SITE)]),
    ),
    refused_pod(
        "a certificate of the cluster's for a pod",
        "appliance-volumes",
        pod(
            volumes=[
                {
                    "name": "c",
                    "projected": {
                        "sources": [
                            {
                                "podCertificate": {
                                    "signerName": "kubernetes.io/kube-apiserver-client-pod",
                                    "keyType": "ED25519",
                                }
                            }
                        ]
                    },
                }
            ]
        ),
    ),
    refused_pod(
        "a token of 47 years for another audience",
        "appliance-volumes",
        pod(volumes=[token_of(1_483_228_800)], serviceAccountName="default"),
    ),
    claim("a claim of volumes without a class", storageClassName=""),
    claim("a claim where no class is the default", storageClassName=None),
    claim("a claim that selects a volume", selector={"matchLabels": {"a": "b"}}),
    Cheat(
        "a volume that is there, named by a claim that waits",
        "appliance-claims",
        f"/api/v1/namespaces/{ALPHA}/persistentvolumeclaims/{MINE}",
        {"spec": {"volumeName": "homes"}},
        "PATCH",
    ),
    Cheat(
        "a volume of one's own on the site's export",
        RBAC,
        "/api/v1/persistentvolumes",
        {
            "metadata": {"name": "homes"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany"],
                "nfs": {"server": "10.0.0.1", "path": "/home"},
            },
        },
    ),
    # The registry's key.
    *(
        refused_pod(f"the registry's key {name}", "appliance-pull-secret", pod(**spec))
        for name, spec in (
            ("as a volume", {"volumes": [{"name": "k", "secret": {"secretName": "ngc"}}]}),
            (
                "as a projected volume",
                {
                    "volumes": [
                        {"name": "k", "projected": {"sources": [{"secret": {"name": "ngc"}}]}}
                    ]
                },
            ),
            ("in env", {"container": key_in_env()}),
            ("in envFrom", {"container": {"envFrom": [{"secretRef": {"name": "ngc"}}]}}),
            (
                "in an init container",
                {"gpus": 0, "initContainers": [{"name": "i", "image": "none", **key_in_env()}]},
            ),
        )
    ),
    Cheat(
        "the registry's key in a container added later",
        "appliance-pull-secret",
        f"{pods(ALPHA)}/{MINE}/ephemeralcontainers",
        {"spec": {"ephemeralContainers": [{"name": "late", "image": "none", "env": LATE}]}},
        "PATCH",
    ),
    Cheat("secrets listed", RBAC, f"/api/v1/namespaces/{ALPHA}/secrets", method="GET"),
    Cheat("the registry's key read", RBAC, f"/api/v1/namespaces/{ALPHA}/secrets/ngc", method="GET"),
    Cheat(
        "the registry's key replaced",
        "appliance-secrets",
        f"/api/v1/namespaces/{ALPHA}/secrets/ngc",
        {
            "metadata": {"name": "ngc"},
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": "e30="},
        },
        "PUT",
    ),
    Cheat(
        "the registry's key read from the answer to a patch, as one copied into a label",
        RBAC,
        f"/api/v1/namespaces/{ALPHA}/secrets/ngc",
        {"metadata": {}},
        "PATCH",
    ),
    Cheat(
        "the registry's key deleted",
        "appliance-secrets",
        f"/api/v1/namespaces/{ALPHA}/secrets/ngc",
        method="DELETE",
    ),
    *(
        deleted(
            f"a secret read from the answer to its deletion, {name}",
            "appliance-secrets",
            f"/api/v1/namespaces/{ALPHA}/secrets/{MINE}",
            **options,
        )
        for name, options in (
            ("tried only", {}),
            ("in the foreground", {"propagationPolicy": "Foreground"}),
            ("which leaves orphans", {"propagationPolicy": "Orphan"}),
        )
    ),
    Cheat(
        "a token that never expires",
        "appliance-secrets",
        f"/api/v1/namespaces/{ALPHA}/secrets",
        {
            "metadata": {
                "name": "try",
                "annotations": {"kubernetes.io/service-account.name": "default"},
            },
            "type": "kubernetes.io/service-account-token",
        },
    ),
    # A host's memory and disk.
    *(
        refused_pod(name, RANGE, pod(container={"resources": given}))
        for name, given in (
            (
                "a request of 1 MiB, a limit of 400 GiB",
                {"requests": {"memory": "1Mi"}, "limits": {"memory": "400Gi"}},
            ),
            (
                "a disk of a host by a request of 1 GiB",
                {
                    "requests": {"ephemeral-storage": "1Gi"},
                    "limits": {"ephemeral-storage": "300Gi"},
                },
            ),
        )
    ),
    refused_pod(
        "resources of the pod as a whole",
        "appliance-sizes",
        pod(resources={"limits": {"memory": "400Gi"}}),
    ),
)
