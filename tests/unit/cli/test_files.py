"""A file that is named on the command line is a file: nothing waits for a pipe or reads a device to its end."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from appliance.actions.benchmarks import model_load, serving
from appliance.adapters.kubernetes import KubernetesApi
from appliance.benchmarks.foreign import clustermax
from appliance.cli.files import InputFile, write
from appliance.cli.verbs import VERBS, Commands
from appliance.errors import ConfigError
from appliance.provision import manifest
from tests.support.command_line import run

WRITTEN = {"output"}
"""Names of what is written."""


def options() -> Iterator[tuple[str, click.Option]]:
    """All options of all commands that take a path of a file."""
    left: list[tuple[str, click.Command]] = [(name, Commands()[name]) for name in VERBS]
    while left:
        name, command = left.pop()
        if isinstance(command, click.Group):
            left += [(f"{name} {word}", one) for word, one in command.commands.items()]
        for one in command.params:
            if isinstance(one, click.Option) and isinstance(one.type, click.Path):
                yield name, one


def test_every_file_that_is_read_is_looked_at_first() -> None:
    found = list(options())
    assert len([one for _, one in found if isinstance(one.type, InputFile)]) >= 8
    for command, one in found:
        assert isinstance(one.type, click.Path)
        is_folder = not one.type.file_okay or one.metavar == "DIR"
        assert isinstance(one.type, InputFile) or is_folder or one.name in WRITTEN, (
            f"{command} {one.opts}"
        )


@pytest.fixture
def special(tmp_path: Path) -> Iterator[list[Path]]:
    """A pipe without a writer, a device without an end, a socket."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        (tmp_path / "link").symlink_to("pipe")
        yield [tmp_path / "pipe", tmp_path / "link", tmp_path / "s", Path("/dev/zero")]


@pytest.mark.parametrize(
    "words",
    [
        ("validate", "--foreign"),
        ("validate", "serving", "--results"),
        ("validate", "serving", "--here", "--endpoint", "https://h/v1", "--api-key-file"),
        ("validate", "serving", "--here", "--endpoint", "https://h/v1", "--ca"),
        ("validate", "model-load", "--s3-credentials"),
        ("validate", "scheduler", "--kubeconfig"),
        ("accept", "--sign"),
        ("report", "verify", "x.tar", "--allowed-signers"),
        ("report", "verify"),
        ("profile", "validate"),
        ("plan", "--site"),
    ],
)
def test_what_is_no_file_is_refused_in_one_line(
    words: tuple[str, ...],
    special: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in special:
        assert run(monkeypatch, *words, str(file)) == 2
        said = capsys.readouterr()
        assert "Traceback" not in said.err + said.out
        assert file.name in said.err + said.out


def test_a_pipe_that_nobody_reads_is_not_waited_for(special: list[Path], tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such device"):
        write(special[0], "text")
    reader = os.open(special[0], os.O_RDONLY | os.O_NONBLOCK)
    write(special[0], "text")
    assert os.read(reader, 9) == b"text"
    os.close(reader)
    for text in ("a longer text", "text"):
        write(tmp_path / "file", text)
    assert (tmp_path / "file").read_text() == "text"


def test_readers_do_not_wait_either(special: list[Path], tmp_path: Path) -> None:
    """What was a file when it was looked at may be a pipe when it is opened."""
    pipe = special[0]
    for read in (
        clustermax.text_of,
        serving.read_results,
        serving.key,
        model_load.credentials,
        KubernetesApi,
    ):
        with pytest.raises(ConfigError, match="not a regular file"):
            read(pipe)
    (tmp_path / "image").mkdir()
    os.mkfifo(tmp_path / "image" / manifest.MANIFEST)
    with pytest.raises(ConfigError, match="is not a disk image"):
        manifest.read(tmp_path / "image")
