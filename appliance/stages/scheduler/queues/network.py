"""Adapters of the fabric for pods, by the Network Operator: one resource, shared by pods that request it.

Fields as in NicClusterPolicy of Network Operator 26.1 and the documented configuration of k8s-rdma-shared-dev-plugin
(2026-11). An adapter is selected by the kind of its network interface: on InfiniBand, stage fabric loads ib_ipoib, which
creates one for every port; Ethernet adapters of the management network are excluded.
"""

import json

from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.stages.kubernetes.charts import Release
from appliance.stages.scheduler.queues.charts import releases
from appliance.stages.scheduler.queues.manifest import Manifest, manifest
from appliance.stages.scheduler.site import SchedulerOptions

OPERATOR = "network-operator"
KIND = "NicClusterPolicy"
NAME = "nic-cluster-policy"
"""The operator reads only the object of this name."""
RESOURCE = "rdma/fabric"
SHORT = RESOURCE.partition("/")[2]
PODS = 64
"""At once on a host: 8 GPUs in 7 parts each, and some more. Sharing costs an adapter nothing."""
NVIDIA = "15b3"
"""PCI vendor of ConnectX adapters."""
LINKS = {"InfiniBand": "infiniband", "Ethernet": "ether"}
IMAGES = "nvcr.io/nvidia/mellanox"
"""Where a release of the operator has its parts, each tagged with the release."""


def operator(site: Site, profile: Profile, options: SchedulerOptions) -> Release | None:
    """The Network Operator of the site; None where its class has no fabric, or its profile no operator."""
    return next((r for r in releases(site, profile, options) if r.name == OPERATOR), None)


def shared(site: Site, profile: Profile, options: SchedulerOptions) -> bool:
    """Whether the cluster is to give out the fabric's adapters."""
    return options.rdma == "shared" and operator(site, profile, options) is not None


def policy(site: Site, profile: Profile, options: SchedulerOptions) -> Manifest | None:
    """The operator's one resource; None if pods reach the fabric only through the host's network."""
    release = operator(site, profile, options)
    if release is None or options.rdma == "host":
        return None
    fabrics = [own.hardware.fabric for own in site.profiles(profile)]
    kinds = sorted({LINKS[fabric.link_layer] for fabric in fabrics if fabric.ports})
    selectors = {"vendors": [NVIDIA], "linkTypes": kinds}
    # Not the prefix, which is the plugin's default: the operator's admission, where it is on, takes only one with a dot (v26.1.2).
    pool = {
        "resourceName": SHORT,
        "rdmaHcaMax": PODS,
        "selectors": selectors,
    }
    plugin = {
        "image": "k8s-rdma-shared-dev-plugin",
        "repository": IMAGES,
        "version": f"network-operator-v{(release.version or release.line).lstrip('v')}",
        "config": json.dumps({"configList": [pool]}, sort_keys=True),
    }
    spec = {"rdmaSharedDevicePlugin": plugin}
    return manifest(site.name, "mellanox.com/v1alpha1", KIND, NAME, {"spec": spec})
