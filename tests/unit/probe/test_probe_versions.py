"""The order of versions, as the package managers have it."""

import subprocess  # noqa: TID251 - the package manager itself
from itertools import combinations, product
from shutil import which

import pytest

from appliance.probe.versions import is_newer

SAMPLE = """
1.0 1.0-1 1.0-1+deb12u1 1.0-1+deb12u9 1.0-1+deb12u10 1.0~rc1-1 1.0-1~bpo12+1 1.0-0 1:0.9 0:1.0 2.36-9+deb12u10 2.36-9 1.0a
1.0.a 1.0+ 1.0.1 1.00 01.0 1.0-1-2 10 9 1.0~~ 1.0~~a 1.0~ 22.05.8-4+deb12u3 580.95.05-1 3:580.95.05-1 1.0z 1.0-1ubuntu0.1 1.0-1build1
"""
DPKG = "1.0~rc1-1 1.0-1~bpo12+1 1.0-1 1.0-1ubuntu0.1 1.0-1+deb12u9 1.0-1+deb12u10 1.0-2 1.0a-1 1.0.1-1 1.10-1 1:0.1-1"
RPM = "1.0~rc1-1 1.0-1 1.0-1.el9 1.0-1.el9_6 1.0-1.el9_6.2 1.0-1.el9_6.10 1.0-2 1.0^20261101-1 1.0a-1 1.0.1-1 1.10-1 1:0.1-1"


@pytest.mark.parametrize(("line", "rpm"), [(DPKG, False), (RPM, True)], ids=["dpkg", "rpm"])
def test_later_ones_are_newer_and_no_other(line: str, rpm: bool) -> None:
    versions = line.split()
    for (i, one), (j, other) in product(enumerate(versions), repeat=2):
        assert is_newer(one, other, rpm=rpm) == (i > j), (one, other)


@pytest.mark.skipif(not which("dpkg"), reason="dpkg is not here")
def test_dpkg_says_the_same() -> None:
    pairs = list(combinations(SAMPLE.split(), 2))
    asked = "\n".join(
        f"dpkg --compare-versions '{one}' gt '{other}' && echo 1 || echo 0" for one, other in pairs
    )
    done = subprocess.run(["sh"], input=asked, capture_output=True, text=True, check=True)
    said = [line == "1" for line in done.stdout.split()]
    wrong = [
        (one, other, gt)
        for (one, other), gt in zip(pairs, said, strict=True)
        if is_newer(one, other, rpm=False) != gt
    ]
    assert wrong == []
