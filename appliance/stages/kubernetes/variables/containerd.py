"""Variables of role containerd: the runtime of a Kubernetes host."""

from appliance.errors import ConfigError
from appliance.models.site import Role
from appliance.stages.base.bundle import address
from appliance.stages.base.variables import in_container
from appliance.stages.context import RoleContext, Variables
from appliance.stages.kubernetes.site import KubernetesOptions
from appliance.stages.kubernetes.variables.releases import options, release

PAUSE = {28: "3.9", 31: "3.10", 34: "3.10.1", 36: "3.10.2"}
"""The sandbox image kubeadm names from a minor release on (cmd/kubeadm/app/constants)."""
STATIC_PODS = frozenset(
    {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-vip"}
)
"""Images of static pods of control hosts, by the last part of their repositories."""
UPSTREAM_PLUGINS = "/opt/cni/bin"
"""Folder in which Calico and Cilium put their plugins."""
GPU_RUNTIME = "/usr/bin/nvidia-container-runtime"
"""Of the toolkit stage gpu brings. The GPU Operator's own pods, and KAI's with a part of a GPU, ask for a runtime of the name nvidia
(GPU Operator v26.3.2 and v26.7.0 without its toolkit; KAI's chart v0.16.8), which containerd has to be configured for."""


def variables(context: RoleContext) -> Variables:
    """Return all variables of role containerd. Raises ConfigError without a release."""
    given = options(context.site)
    container = in_container(context.site, context.own)
    version = containerd_release(context)
    is_control = Role.CONTROL in context.host.roles
    images = given.offline("images")
    return {
        "containerd_state": "present",
        **_repository(context, version),
        "containerd_schema": schema(version),
        "containerd_devices": _numbers(version) >= (1, 7),
        "containerd_gpu_runtime": GPU_RUNTIME if Role.GPU in context.host.roles else "",
        "containerd_cni_folder": "" if given.network == "bridge" else UPSTREAM_PLUGINS,
        "containerd_image_folders": [
            f"{images}/images/{name}" for name in ("hosts", "control") if images
        ],
        "containerd_images_spared": sorted(_of_static_pods(given))
        if images and not is_control
        else [],
        "containerd_sandbox_image": sandbox_image(release(context).minor),
        "containerd_systemd_cgroups": not container,
        "containerd_container": container,
        "containerd_mirrors": [
            {"registry": name, "server": _server(name), "mirror": url}
            for name, url in sorted(given.registry_mirrors.items())
        ],
        "containerd_source": given.offline("packages"),
    }


def _of_static_pods(given: KubernetesOptions) -> set[str]:
    """Return images that run only on control hosts, by name; other images of images/control may run on any host."""
    own = (given.address_image or "").partition("@")[0].rpartition("/")[2].partition(":")[0]
    return {*STATIC_PODS, *filter(None, [own])}


def _repository(context: RoleContext, version: str) -> Variables:
    """Return the package's source, its name there, and the release at which it is held."""
    found = context.site.repositories.containerd
    offline = bool(options(context.site).offline("packages"))
    upstream = schema(version) > 2 if offline else found.source == "docker"
    return {
        "containerd_package": "containerd.io" if upstream else "containerd",
        "containerd_release": version,
        "containerd_repository": "" if offline else found.source,
        "containerd_repository_mirror": address(context.site, context.own, "containerd")
        or found.mirror
        or "",
        "containerd_repository_key": found.key or "",
        "containerd_repository_fingerprint": found.fingerprint or "",
    }


def schema(version: str) -> int:
    """Return the version of the configuration file's schema: 2 for containerd 1.x, 3 for 2.x.

    2.3 has a schema 4, and reads 3 as well; a host whose package is older would not start with it.
    """
    return 2 if _numbers(version) < (2, 0) else 3


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def sandbox_image(minor: int) -> str:
    """Return the pause image of a Kubernetes release, as named by kubeadm."""
    tag = [tag for since, tag in PAUSE.items() if minor >= since][-1]
    return f"registry.k8s.io/pause:{tag}"


def containerd_release(context: RoleContext) -> str:
    """Return the release of the site or its profile. Raises ConfigError if neither sets it."""
    chosen = (
        options(context.site).containerd
        or context.site.software.get("containerd")
        or context.profile.software.containerd
    )
    if not chosen:
        raise ConfigError(
            "no release of containerd is chosen", "set kubernetes.containerd in site.yml, as 2.3"
        )
    return chosen


def _server(registry: str) -> str:
    """Return a registry's server without its mirror; Docker Hub's differs from its name."""
    return "https://registry-1.docker.io" if registry == "docker.io" else f"https://{registry}"
