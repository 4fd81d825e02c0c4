"""Containers in Slurm jobs as the probe reads them."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable
from appliance.stages.slurm.collect import containers
from appliance.stages.slurm.facts import Containers
from tests.support.probe_trees import grow

__all__ = ["grow"]


Grow = Callable[[dict[str, Any]], str]
PLUGIN = "/usr/local/lib/slurm/spank_pyxis.so"
NOTE = {
    "plugin": PLUGIN,
    "plugin_sha256": hashlib.sha256(b"a plugin").hexdigest(),
    "slurm": "22.05.8",
    "pyxis": "0.24.0",
    "at": "/scratch/enroot",
}
SRUN = {"when": {"--help": "  --container-image=IMAGE\n"}}
HOST = {
    containers.NOTE: json.dumps(NOTE),
    containers.PLUGSTACK: f"# a comment\nrequired {PLUGIN}\n",
    PLUGIN: "a plugin",
    "/scratch/enroot/cache/.keep": "",
    "/usr/bin/srun": SRUN,
    "/usr/bin/scontrol": {"when": {"--version": "slurm 22.05.8\n"}},
    "/usr/bin/enroot": {"when": {}},
    "/usr/bin/unsquashfs": {"when": {}},
    "/usr/bin/mksquashfs": {"when": {}},
    "/var/lib/dpkg/status": "",
    "/usr/bin/dpkg-query": {"when": {"enroot": "enroot\tall\tinstalled\t4.1.2-1\n"}},
    "/proc/sys/user/max_user_namespaces": "60000\n",
    "/proc/filesystems": "nodev\tsysfs\nnodev\toverlay\n\text4\n",
}


def seen(root: str) -> Containers:
    return Containers.model_validate(containers.collect(Ask({}, root))["containers"])


def test_a_host_without_any_of_it_has_nothing_to_tell(grow: Grow) -> None:
    assert containers.collect(Ask({}, grow({"/etc/hostname": "gpu-1\n"}))) == {"containers": None}


def test_a_host_with_all_of_it_is_told_whole(grow: Grow) -> None:
    found = seen(grow(HOST))
    assert found.plugin is not None
    assert found.plugin.model_dump() == {
        "path": PLUGIN,
        "there": True,
        "configured": True,
        "release": "0.24.0",
        "built_for": "22.05.8",
        "offers": True,
        "problem": "",
    }
    assert (found.slurm, found.enroot, found.overlay) == ("22.05.8", "4.1.2-1", True)
    assert found.lacks == ("nvidia-container-cli",)
    assert found.kernel == {"user.max_user_namespaces": "60000"}
    assert found.folder == "/scratch/enroot"
    assert found.free
    assert found.free > 0


def test_a_plugin_of_another_make_or_out_of_use_is_seen(grow: Grow) -> None:
    other = {**HOST, PLUGIN: "another", containers.PLUGSTACK: "# nothing\n"}
    found = seen(grow(other)).plugin
    assert found
    assert (found.there, found.configured) == (False, False)


def test_what_srun_says_of_a_plugin_it_refuses_is_kept(grow: Grow) -> None:
    srun = '#!/bin/sh\necho "spank: no" >&2; exit 1\n'
    found = seen(grow({**HOST, "/usr/bin/srun": {"text": srun, "mode": "0755"}})).plugin
    assert found
    assert found.offers is None
    assert found.problem == "srun failed with 1: spank: no"


def test_a_kernel_without_overlays_is_told_and_one_that_is_silent_is_not(grow: Grow) -> None:
    assert seen(grow({**HOST, "/proc/filesystems": "\text4\n"})).overlay is None
    assert seen(grow({**HOST, "/proc/filesystems": ""})).overlay is None


def test_a_note_that_cannot_be_read_is_a_problem(grow: Grow) -> None:
    for text in ("{", "[]"):
        with pytest.raises(Unreadable):
            containers.collect(Ask({}, grow({containers.NOTE: text})))
