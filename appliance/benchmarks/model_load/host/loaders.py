"""The loaders. Each is done when every tensor is copied into parameters that were there before, as a server's are."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from appliance.benchmarks.model_load.host.cold import fetched
from appliance.benchmarks.model_load.host.model import Model

PACKAGES = {
    "safetensors": ("safetensors", "torch"),
    "streamer": ("runai-model-streamer", "torch"),
    "tensorizer": ("tensorizer", "torch"),
}
"""Packages that each loader needs, by their names on PyPI."""
MODULES = {
    "safetensors": "safetensors",
    "streamer": "runai_model_streamer",
    "tensorizer": "tensorizer",
}
WITH_S3 = ("streamer",)
S3_PACKAGES = ("runai-model-streamer-s3", "boto3")


def load(
    loader: str, source: str, concurrency: int, model: Model, digests: Mapping[str, str]
) -> dict[str, Any]:
    """One load: ``seconds`` from the request of the first byte to the last filled parameter.

    ``wrong``: tensors whose SHA-256 differs from ``digests``. If PyTorch has a GPU, parameters are on it.
    """
    torch = import_module("torch")
    # Threads of a copy wait for the slowest: with other load on the machine, only that wait would be measured.
    torch.set_num_threads(1)
    on_gpu = torch.cuda.is_available()
    # Write ones: zeros may be pages that were never touched.
    parameters = {
        name: torch.ones(shape, dtype=torch.bfloat16, device="cuda" if on_gpu else "cpu")
        for name, shape in model.shapes.items()
    }
    library = import_module(MODULES[loader])
    before, began = fetched(), time.monotonic()
    LOADERS[loader](library, source, concurrency, parameters)
    if on_gpu:
        torch.cuda.synchronize()
    seconds = time.monotonic() - began
    read = fetched() - before
    wrong = [n for n, digest in digests.items() if n and digest != _digest(torch, parameters[n])]
    device = torch.cuda.get_device_name() if on_gpu else "cpu"
    return {"seconds": seconds, "fetched": read, "device": device, "wrong": len(wrong)}


def serialize(source: Path, target: Path) -> dict[str, Any]:
    """The same tensors in tensorizer's own format, which its loader needs."""
    tensorizer, files = import_module("tensorizer"), import_module("safetensors.torch")
    writer = tensorizer.TensorSerializer(str(target))
    writer.write_state_dict(files.load_file(str(source)))
    writer.close()
    return {}


def _safetensors(library: Any, source: str, _: int, parameters: Mapping[str, Any]) -> None:
    with library.safe_open(source, framework="pt", device="cpu") as file:
        for name in file.keys():  # noqa: SIM118 - no dictionary
            parameters[name].copy_(file.get_tensor(name))


def _streamer(library: Any, source: str, _: int, parameters: Mapping[str, Any]) -> None:
    """Its concurrency is in the environment, where the loader reads it."""
    with library.SafetensorsStreamer() as streamer:
        streamer.stream_file(source)
        for name, tensor in streamer.get_tensors():
            parameters[name].copy_(tensor)


def _tensorizer(library: Any, source: str, readers: int, parameters: Mapping[str, Any]) -> None:
    with library.TensorDeserializer(source, device="cpu", num_readers=readers) as tensors:
        for name in tensors.keys():  # noqa: SIM118 - no dictionary
            parameters[name].copy_(tensors[name])


LOADERS: dict[str, Callable[[Any, str, int, Mapping[str, Any]], None]] = {
    "safetensors": _safetensors,
    "streamer": _streamer,
    "tensorizer": _tensorizer,
}


def _digest(torch: Any, tensor: Any) -> str:
    flat = tensor.cpu().contiguous().view(torch.uint8).reshape(-1)
    return hashlib.sha256(memoryview(flat.numpy())).hexdigest()
