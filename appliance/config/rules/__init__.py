"""What a schema cannot say: rules over a whole profile, and over a site with its profile."""

from appliance.config.finding import Finding
from appliance.config.rules import (
    cabling,
    containers,
    fabric,
    files,
    gpu,
    hardware,
    hosts,
    kubernetes,
    mig,
    networks,
    queues,
    quotas,
    scheduler,
    services,
    software,
    storage,
    workloads,
)
from appliance.config.rules.base import Case, Rule
from appliance.config.rules.limits import limits
from appliance.config.schema import Checked
from appliance.models.bound import Bounds
from appliance.models.profile import Profile
from appliance.models.site import Site

SITE_RULES: tuple[Rule, ...] = (
    hosts.names,
    hosts.reserved_names,
    hosts.numbers_for_names,
    hosts.second_names,
    hosts.macs,
    hosts.addresses,
    hosts.roles,
    hosts.control_hosts,
    hosts.gpu_hosts,
    networks.management,
    networks.usable,
    networks.unicast,
    networks.overlaps,
    networks.gateways,
    networks.members,
    networks.known,
    networks.room,
    storage.exports,
    storage.mounts,
    storage.mount_points,
    storage.scratch_devices,
    storage.client_networks,
    storage.kept_folders,
    storage.clients,
    services.partitions,
    services.slurm_words,
    services.accounts,
    services.admins,
    services.time,
    services.external_servers,
    services.fabric,
    fabric.managers,
    fabric.partitions,
    fabric.ipoib,
    fabric.roce,
    fabric.firmware,
    fabric.driver,
    cabling.stated,
    cabling.cables,
    cabling.trunks,
    mig.layouts,
    mig.layout,
    mig.hosts,
    scheduler.choice,
    scheduler.sharing,
    scheduler.pools,
    scheduler.empty_pools,
    scheduler.mig,
    scheduler.fractions,
    scheduler.ends,
    scheduler.priorities,
    scheduler.one_queue_per_pool,
    scheduler.topology,
    scheduler.members,
    queues.names,
    queues.reserved,
    queues.queue_names,
    queues.references,
    queues.shares,
    queues.circles,
    quotas.bounds,
    quotas.limits,
    quotas.sums,
    workloads.cluster,
    workloads.charts,
    workloads.volumes,
    workloads.models,
    workloads.queues,
    workloads.reach,
    workloads.closed_projects,
    workloads.notebooks,
    workloads.images,
    workloads.trials,
    services.access,
    files.needed_secrets,
    files.known_secrets,
    files.secret_places,
    files.login_key,
    files.known_hosts,
    kubernetes.control_planes,
    kubernetes.address_image,
    kubernetes.networks,
    kubernetes.bridge,
    kubernetes.releases,
    kubernetes.owners,
    kubernetes.kubeconfig,
    gpu.repository,
    gpu.kernel_modules,
    containers.releases,
    containers.files,
    software.overrides,
    software.compatible,
)
PROFILE_RULES = (hardware.fabric, hardware.gpus, hardware.host, hardware.scale, mig.of_profile)


def judge_profile(checked: Checked[Profile], check_ids: Bounds | None) -> list[Finding]:
    """Findings of the profile's rules, over as much of it as is sound."""
    if checked.model is None:
        return []
    found = [f for rule in PROFILE_RULES for f in rule(checked, checked.model)]
    return [
        *found,
        *software.profile_compatible(checked),
        *limits(checked, checked.model.limits, check_ids),
    ]


def judge_site(
    checked: Checked[Site], profile: Profile | None, check_ids: Bounds | None
) -> list[Finding]:
    """Findings of the site's rules, over as much of the site as is sound."""
    if checked.model is None:
        return []
    case = Case(checked, checked.model, profile)
    found = [f for rule in SITE_RULES for f in rule(case)]
    return [*found, *limits(checked, checked.model.limits, check_ids)]
