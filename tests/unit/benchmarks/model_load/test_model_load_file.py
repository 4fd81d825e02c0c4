"""The model file: what the format's own library reads of it, the same bytes everywhere, whole or not at all."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import deserialize

from appliance.benchmarks.model_load.host import model
from appliance.benchmarks.model_load.host.model import Model, fitting

NARROWEST = 3_960_184
SHA256 = "42227e28eb213eea00a7c513d40797febc14a134cf86effd0b98cd1fa26c0ccf"


def test_the_formats_own_library_reads_every_tensor(tmp_path: Path) -> None:
    small = fitting(1)
    path = tmp_path / small.file_name
    digests = model.make(path, small)
    read = dict(deserialize(path.read_bytes()))  # type: ignore[no-untyped-call]
    assert {name: tuple(entry["shape"]) for name, entry in read.items()} == small.shapes
    assert {entry["dtype"] for entry in read.values()} == {"BF16"}
    found = {name: hashlib.sha256(entry["data"]).hexdigest() for name, entry in read.items()}
    assert found == {name: digest for name, digest in digests.items() if name}


def test_the_bytes_are_the_same_on_every_host(tmp_path: Path) -> None:
    path = tmp_path / "model"
    digests = model.make(path, fitting(1))
    assert path.stat().st_size == NARROWEST
    assert digests[""] == hashlib.sha256(path.read_bytes()).hexdigest() == SHA256


def test_llama_3_8b_has_its_own_size() -> None:
    assert model.bytes_of(fitting(0).shapes) == 16_060_522_496


@settings(max_examples=25)
@given(st.integers(4_000_000, 20_000_000_000))
def test_a_model_is_never_larger_than_was_asked_for(size: int) -> None:
    assert model.bytes_of(fitting(size).shapes) <= size


@pytest.mark.parametrize("harm", ["cut", "head", "digests", "no digests"])
def test_a_file_that_is_not_whole_is_made_anew(tmp_path: Path, harm: str) -> None:
    small = fitting(1)
    path = tmp_path / small.file_name
    whole = model.make(path, small)
    content = path.read_bytes()
    if harm == "cut":
        path.write_bytes(content[:-1])
    elif harm == "head":
        path.write_bytes(content[:100] + b"#" + content[101:])
    elif harm == "digests":
        model.digests_of(path).write_text('{"": "0"}')
    else:
        model.digests_of(path).unlink()
    assert model.make(path, small) == whole
    assert path.read_bytes() == content


def test_an_interrupted_file_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model, "content", full)
    with pytest.raises(OSError, match="No space"):
        model.make(tmp_path / "model", Model(64))
    assert list(tmp_path.iterdir()) == []
