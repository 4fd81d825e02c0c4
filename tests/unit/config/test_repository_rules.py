"""A site whose cluster's packages come from nowhere, from two places, or signed by anybody, is refused with the key and the remedy."""

from pathlib import Path

import pytest

from appliance.config.finding import Finding, InvalidConfig
from appliance.config.load import load_site
from appliance.config.new_secrets import CLUSTER_KEY, write_secrets

KEY_LINE = f"  {CLUSTER_KEY}: {{file: secrets/{CLUSTER_KEY}}}\n"
OWN = "{mirror: https://mirror.example.org/x, key: own.asc}"
SIGNED = f"{{mirror: https://mirror.example.org/x, key: own.asc, fingerprint: {'A' * 40}}}"


def findings(folder: Path, cluster: str, more: str = "") -> list[Finding]:
    """What is said of the site with a cluster."""
    write_secrets(folder / "secrets", slurm=False, kubernetes=True)
    text = (folder / "site.yml").read_text().replace("\nbase:\n", f"{KEY_LINE}\nbase:\n")
    (folder / "site.yml").write_text(
        f"{text}\nkubernetes: {cluster}\nscheduler: {{kind: kai}}\n{more}\n"
    )
    try:
        load_site(folder)
    except InvalidConfig as error:
        return list(error.findings)
    return []


@pytest.mark.parametrize(
    ("cluster", "more"),
    [
        ("{}", ""),
        ('{version: "1.35.4"}', f"repositories: {{containerd: {SIGNED}, kubernetes: {SIGNED}}}"),
        ("{source: /opt/source}", ""),
        (
            "{source: /opt/source, source_parts: [images, charts]}",
            f"repositories: {{kubernetes: {SIGNED}}}",
        ),
        (
            '{containerd: "1.7"}',
            "repositories: {kubernetes: {source: hosts}, containerd: {source: distribution}}",
        ),
    ],
)
def test_a_site_whose_packages_have_one_source_is_sound(
    site_folder: Path, cluster: str, more: str
) -> None:
    assert findings(site_folder, cluster, more) == []


@pytest.mark.parametrize(
    ("cluster", "more", "key", "said", "remedy"),
    [
        (
            "{}",
            "repositories: {containerd: {source: distribution}}",
            "repositories.containerd.source",
            "may not package containerd",
            "kubernetes.containerd",
        ),
        (
            "{source: /opt/source, source_parts: [images]}",
            "repositories: {containerd: {source: distribution}}",
            "repositories.containerd.source",
            "package containerd 2.3",
            "or use docker",
        ),
        (
            "{source: /opt/source}",
            f"repositories: {{kubernetes: {SIGNED}}}",
            "repositories.kubernetes",
            "is not used",
            "without packages",
        ),
        (
            "{source_parts: [images]}",
            "",
            "kubernetes.source_parts",
            "kubernetes.source is not",
            "kubernetes.source",
        ),
        ("{dns: supplied}", "", "kubernetes.dns", "which contains none", "coredns"),
        (
            "{}",
            f"repositories: {{kubernetes: {OWN}}}",
            "repositories.kubernetes.key",
            "any key would be accepted",
            "add fingerprint",
        ),
        (
            "{}",
            f"repositories: {{containerd: {OWN}}}",
            "repositories.containerd.key",
            "any key would be accepted",
            "add fingerprint",
        ),
        (
            "{}",
            "repositories: {kubernetes: {source: hosts, mirror: https://m.example.org}}",
            "repositories.kubernetes.mirror",
            "source is hosts",
            "write source: kubernetes",
        ),
        (
            "{}",
            "repositories: {containerd: {source: distribution, key: own.asc}}",
            "repositories.containerd.key",
            "source is distribution",
            "write source: docker",
        ),
    ],
)
def test_any_other_is_refused_with_its_key_and_a_remedy(
    site_folder: Path, cluster: str, more: str, key: str, said: str, remedy: str
) -> None:
    found = findings(site_folder, cluster, more)
    assert any(f.key == key and said in f.message and remedy in f.remedy for f in found)
