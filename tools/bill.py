"""The bill of materials of a release: a document of CycloneDX that names each package of the lock with its hashes."""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement

from appliance import __version__

VERSION = SchemaVersion.V1_6
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def of(wheel: Path, lock: Path) -> str:
    """The document as JSON, the same bytes for the same files. Raises ValueError if its schema refuses it."""
    program = Component(
        type=ComponentType.APPLICATION,
        name="appliance",
        version=__version__,
        bom_ref="appliance",
        licenses=[LicenseExpression("Apache-2.0")],
        hashes=[
            HashType(
                alg=HashAlgorithm.SHA_256, content=hashlib.sha256(wheel.read_bytes()).hexdigest()
            )
        ],
    )
    packages = list(_packages(lock))
    bom = Bom(components=packages)
    bom.metadata.component = program
    bom.register_dependency(program, packages)
    found = json.loads(make_outputter(bom, OutputFormat.JSON, VERSION).output_as_string())
    # Both would differ at each build.
    del found["serialNumber"], found["metadata"]["timestamp"]
    text = json.dumps(found, indent=2)
    if error := JsonStrictValidator(VERSION).validate_str(text):
        raise ValueError(str(error))
    return f"{text}\n"


def _packages(lock: Path) -> Iterator[Component]:
    """``lock``: requirements with hashes; a line that names a file of the release is no package."""
    for entry in re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8")):
        if not entry[:1].isalnum():
            continue
        wanted = Requirement(entry.partition("\\")[0].strip())
        version = str(wanted.specifier).removeprefix("==")
        url = PackageURL("pypi", name=wanted.name, version=version)
        files = ExternalReference(
            type=ExternalReferenceType.DISTRIBUTION,
            url=XsUri(f"https://pypi.org/project/{wanted.name}/{version}/#files"),
            hashes=[
                HashType(alg=HashAlgorithm.SHA_256, content=one) for one in HASH.findall(entry)
            ],
        )
        yield Component(
            type=ComponentType.LIBRARY,
            name=wanted.name,
            version=version,
            purl=url,
            bom_ref=str(url),
            description=f"for {wanted.marker}" if wanted.marker else None,
            external_references=[files],
        )
