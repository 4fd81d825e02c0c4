"""Workloads site, as several test modules use it."""

from pathlib import Path

from appliance.config.load import LoadedSite, load_site
from appliance.stages.workloads.table import table
from tests.support.impossible_queues import BASE, furnish
from tests.support.rendered_queues import DATA

CLUSTER = "kubernetes: {version: '1.35', device_plugin: own, source: /opt/source}\n"


STORAGE = "storage: {exports: [{path: /srv/data}, {path: /srv/ro, read_only: true}]}\n"


QUEUES = (DATA / "flat.yml").read_text()


KEYS = [addon.key for addon in table().addons]


SERVED = "{queue: train, models: [{name: llama, path: llama/3-8b}]}"


LOGIN = "authenticator: generic-oauth"


GIVEN = {"vllm": SERVED, "jupyter": f"{{{LOGIN}}}"}
"""Sections that are nothing without what they are given."""


ALL = "workloads:\n" + "".join(f"  {key}: {GIVEN.get(key, '{}')}\n" for key in KEYS)


def load(
    folder: Path, text: str, cluster: str = CLUSTER, storage: str = STORAGE, queues: str = QUEUES
) -> LoadedSite:
    furnish(folder)
    secrets = BASE.replace(
        "secrets:\n", "secrets:\n  kubernetes_encryption_key: {file: secrets/munge_key}\n"
    )
    (folder / "site.yml").write_text(secrets + queues + storage + cluster + text)
    return load_site(folder)
