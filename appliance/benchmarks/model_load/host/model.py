"""A reproducible model file: Llama-3-8B's tensors with contents that are derived from their names alone."""

from __future__ import annotations

import hashlib
import json
import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path

LLAMA_WIDTH, LAYERS = 4096, 32
STEP = 64
PIECE = 4 << 20


class Model:
    """Names, shapes and bytes of a BF16 model of one width; 4096 is Llama-3-8B, 16.06 GB."""

    def __init__(self, width: int) -> None:
        self.shapes = shapes(width)
        self.head = head_of(self.shapes)
        self.size = len(self.head) + bytes_of(self.shapes)

    @property
    def file_name(self) -> str:
        """The same for the same content."""
        return f"appliance-model-{self.size}.safetensors"


def fitting(size: int) -> Model:
    """Returns the widest model whose tensors need at most ``size`` bytes; Llama's own for 0, at least the narrowest."""
    width = LLAMA_WIDTH if not size else STEP
    while width < LLAMA_WIDTH and bytes_of(shapes(width + STEP)) <= size:
        width += STEP
    return Model(width)


def shapes(width: int) -> dict[str, tuple[int, ...]]:
    """By name, in the order of the file; 501/16 is Llama-3's vocabulary over its width."""
    vocabulary, narrow, wide = width * 501 // 16, width // 4, width * 7 // 2
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, width)}
    for n in range(LAYERS):
        layer = f"model.layers.{n}."
        found[f"{layer}self_attn.q_proj.weight"] = (width, width)
        found[f"{layer}self_attn.k_proj.weight"] = (narrow, width)
        found[f"{layer}self_attn.v_proj.weight"] = (narrow, width)
        found[f"{layer}self_attn.o_proj.weight"] = (width, width)
        found[f"{layer}mlp.gate_proj.weight"] = (wide, width)
        found[f"{layer}mlp.up_proj.weight"] = (wide, width)
        found[f"{layer}mlp.down_proj.weight"] = (width, wide)
        found[f"{layer}input_layernorm.weight"] = (width,)
        found[f"{layer}post_attention_layernorm.weight"] = (width,)
    found["model.norm.weight"] = (width,)
    found["lm_head.weight"] = (vocabulary, width)
    return found


def bytes_of(named: dict[str, tuple[int, ...]]) -> int:
    """Bytes of all tensors."""
    return sum(map(size_of, named.values()))


def size_of(shape: tuple[int, ...]) -> int:
    """Bytes of one tensor in BF16."""
    size = 2
    for length in shape:
        size *= length
    return size


def head_of(named: dict[str, tuple[int, ...]]) -> bytes:
    """The head of a safetensors file: its length in 8 bytes, little endian, then JSON, padded to 8 bytes."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for name, shape in named.items():
        end = begin + size_of(shape)
        entries[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def content(name: str, size: int) -> Iterator[bytes]:
    """A tensor's bytes: the same on every host, and nothing that storage could compress or keep only once."""
    source = random.Random(f"appliance:{name}")
    while size > 0:
        length = min(size, PIECE)
        yield source.getrandbits(8 * length).to_bytes(length, "little")
        size -= length


def make(path: Path, model: Model) -> dict[str, str]:
    """Writes the file, whole or not at all. SHA-256 of each tensor, and of the whole file under ""."""
    if known := _known(path, model):
        return known
    digests: dict[str, str] = {}
    whole = hashlib.sha256(model.head)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(model.head)
            for name, shape in model.shapes.items():
                one = hashlib.sha256()
                for piece in content(name, size_of(shape)):
                    file.write(piece)
                    one.update(piece)
                    whole.update(piece)
                digests[name] = one.hexdigest()
            file.flush()
            os.fsync(file.fileno())
        digests[""] = whole.hexdigest()
        digests_of(path).write_text(json.dumps(digests), encoding="ascii")
        part.replace(path)
    finally:
        if part.exists():
            part.unlink()
    return digests


def digests_of(path: Path) -> Path:
    """Path of the digests of a file."""
    return path.with_name(f"{path.name}.digests")


def _known(path: Path, model: Model) -> dict[str, str] | None:
    """Returns the digests of a complete file of an earlier run; None if there is none. Loads compare the bytes that they read."""
    try:
        if path.stat().st_size != model.size:
            return None
        with path.open("rb") as file:
            if file.read(len(model.head)) != model.head:
                return None
        found: dict[str, str] = json.loads(digests_of(path).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return found if set(found) == {"", *model.shapes} else None
