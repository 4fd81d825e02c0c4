"""One resource of Kubernetes as it is written: marked as ours, with a digest, the same text every time."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import yaml  # noqa: TID251 - config is the door to YAML

Manifest = dict[str, Any]

MANAGED_BY = "app.kubernetes.io/managed-by"
SITE = "appliance/site"
DIGEST = "appliance/digest"
OURS = "appliance"


def manifest(
    site: str,
    api_version: str,
    kind: str,
    name: str,
    body: Mapping[str, object] | None = None,
    *,
    namespace: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Manifest:
    """A resource with our labels, and the digest of its content as an annotation."""
    metadata: Manifest = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "labels": {MANAGED_BY: OURS, SITE: site, **(labels or {})},
    }
    written: Manifest = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": metadata,
        **(body or {}),
    }
    metadata["annotations"] = {DIGEST: digest(written)}
    return written


def digest(content: object) -> str:
    """sha256 of the content's canonical JSON."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def documents(manifests: list[Manifest]) -> str:
    """The resources as YAML for kubectl apply --server-side, in their order."""
    return "---\n".join(text(m) for m in manifests)


class _Dumper(yaml.SafeDumper):
    """Writes repeated values without YAML anchors, for readers."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def text(content: object) -> str:
    """YAML with sorted keys."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=True, width=100)


def number(value: float) -> float | int:
    """Whole numbers without a point, as the API server gives them back."""
    rounded = round(float(value), 6)
    return int(rounded) if rounded.is_integer() else rounded
