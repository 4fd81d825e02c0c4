"""Requirements of an upgrade on this host: packages of the release in its repositories, and images in the offline source.

apt and dnf read the repositories into a folder of their own, which is removed: no list, cache or source of the host changes.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import tempfile

from appliance.probe import files, places
from appliance.probe.ask import Ask
from appliance.probe.lines import lines_of
from appliance.probe.problems import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

PATIENCE = 30.0
INSTALLED = "/var/lib/dpkg/status"


def collect(ask: Ask) -> Facts:
    """The area ``offer``."""
    packages, sources = ask.offer.get("packages", []), ask.offer.get("sources", [])
    folder = tempfile.mkdtemp(prefix="appliance-offer-")
    try:
        found = (_apt if ask.has("apt-get") else _dnf)(ask, folder, packages, sources)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    images = [name for place in ask.offer.get("images", []) for name in names(ask.path(place))]
    return {"offer": {"packages": found, "images": sorted(set(images))}}


def _apt(ask: Ask, folder: str, packages: list[str], sources: list[str]) -> dict[str, list[str]]:
    """Return the versions in the host's package lists. Raises Unreadable."""
    apart = {"Dir::Cache": folder + "/cache", "APT::Sandbox::User": "root"}
    if sources:
        for part in ("/lists/partial", "/cache/archives/partial"):
            os.makedirs(folder + part)  # noqa: PTH103 - pathlib is slow to load on hosts
        lines = ["deb [trusted=yes] " + url + " ./\n" for url in sources]
        with open(folder + "/list", "w", encoding="utf-8") as file:  # noqa: PTH123 - the same
            file.writelines(lines)
        apart.update(
            {
                "Dir::Etc::SourceList": folder + "/list",
                "Dir::Etc::SourceParts": "/dev/null",
                "Dir::State::Lists": folder + "/lists",
                "Acquire::Retries": "0",
                "Acquire::http::Timeout": "10",
                "Acquire::https::Timeout": "10",
            }
        )
    options = [word for key, value in apart.items() for word in ("-o", key + "=" + value)]
    failure = None
    try:
        if sources:
            ask.run(["apt-get", *options, "-q", "update"], PATIENCE)
    except Unreadable as error:
        failure = error
    said = ask.run(["apt-cache", *options, "madison", *packages], PATIENCE)
    found = versions(said, packages)
    # A minor release that does not exist has no repository, and the other one answers.
    if failure and not any(found.values()):
        raise failure
    return found


def versions(said: str, packages: list[str]) -> dict[str, list[str]]:
    """Return the versions in the output of apt-cache madison; an installed version without a repository does not count."""
    found: dict[str, list[str]] = {name: [] for name in packages}
    for line in lines_of(said):
        words = [word.strip() for word in line.split("|")]
        if len(words) == 3 and words[0] in found and not words[2].startswith(INSTALLED):
            found[words[0]].append(words[1])
    return {name: sorted(set(known)) for name, known in found.items()}


def _dnf(ask: Ask, folder: str, packages: list[str], sources: list[str]) -> dict[str, list[str]]:
    """Raises Unreadable."""
    words = ["dnf", "-q", "--setopt=cachedir=" + folder, "--setopt=skip_if_unavailable=1"]
    if sources:
        words += ["--disablerepo=*", "--nogpgcheck"]
        for number, url in enumerate(sources):
            words.append("--repofrompath=appliance-" + str(number) + "," + url)
    asked = ["repoquery", "--qf", "%{name} %{version}-%{release}\n", *packages]
    found: dict[str, list[str]] = {name: [] for name in packages}
    for line in lines_of(ask.run([*words, *asked], PATIENCE)):
        name, _, version = line.strip().partition(" ")
        if name in found and version:
            found[name].append(version)
    return {name: sorted(set(known)) for name, known in found.items()}


def names(folder: str) -> list[str]:
    """Return the images in the archives of a folder. Raises Unreadable."""
    found: list[str] = []
    try:
        for file in sorted(files.names(folder)):
            if not file.endswith(".tar"):
                continue
            with os.fdopen(places.opened(folder + "/" + file), "rb") as data:
                archive = tarfile.open(fileobj=data)  # noqa: SIM115 - the file is closed
                member = archive.extractfile("manifest.json")
                for image in json.load(member) if member else []:
                    found += [str(name) for name in image.get("RepoTags") or []]
    except (OSError, EOFError, KeyError, ValueError, tarfile.TarError) as error:
        raise Unreadable(folder + ": " + str(error)) from None
    return found
