"""The files of a site and those it names: everything a verb reads of it on this machine."""

from collections.abc import Iterator
from pathlib import Path

from appliance.config import image_lock, known_bmcs
from appliance.config.secrets import references
from appliance.models.site import Site
from appliance.ownership import require_all
from appliance.stages.scheduler.site import RunaiOptions

KUBECONFIG = "kubeconfig"
"""Where the program stores the kubeconfig of a cluster of its own."""


def require_ours(site: Site, folder: Path) -> None:
    """Raises Untrusted if another user can write one of them."""
    require_all(*(folder / name for name in sorted(set(_names(site)))))


def _names(site: Site) -> Iterator[str]:
    yield from (image_lock.NAME, known_bmcs.FILE, KUBECONFIG, site.access.known_hosts)
    key = site.access.private_key
    if key is not None:
        yield from (key, f"{key}.pub", f"{key}-cert.pub")
    for ref in references(site).values():
        if ref.file is not None:
            yield ref.file
        elif ref.vault is not None:
            yield ref.vault.partition("#")[0]
    yield from _authorities(site)
    if site.external_cluster is not None:
        yield site.external_cluster
    if site.scheduler is not None and (runai := site.scheduler.runai) is not None:
        yield from _of_runai(runai)
    if site.slurm_options.containers is not None:
        yield site.slurm_options.containers.pyxis.file
        yield from (package.file for package in site.slurm_options.containers.enroot)
    if site.provision is not None:
        yield from (site.provision.image, f"{site.provision.image}/manifest.json")
        if site.provision.signers is not None:
            yield site.provision.signers


def _authorities(site: Site) -> Iterator[str]:
    yield from (host.bmc.authority for host in site.hosts if host.bmc and host.bmc.authority)
    if site.notify is not None and site.notify.authority is not None:
        yield site.notify.authority


def _of_runai(runai: RunaiOptions) -> Iterator[str]:
    """Certificates."""
    if runai.ca is not None:
        yield runai.ca
    if runai.install is not None:
        yield runai.install.certificate
        if runai.install.inference is not None:
            yield runai.install.inference.certificate
