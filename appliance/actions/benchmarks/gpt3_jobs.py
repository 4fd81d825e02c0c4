"""Job files of GPT-3 trainings on GPUs, to be submitted by hand. Contacts no host."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.actions.benchmarks.gpt3_logs import model_named
from appliance.benchmarks.gpt3.launch import divides, files, launch
from appliance.errors import ConfigError


@dataclass(frozen=True)
class JobFileRequest:
    """The trainings: None for all models; numbers of hosts; slurm, kubernetes; an image, "" for NeMo's."""

    model: str | None
    nodes: Sequence[int]
    through: Sequence[str]
    image: str
    queue: str


def write(folder: Path, wanted: JobFileRequest) -> Iterator[Path]:
    """Writes every file and yields its path. Raises ConfigError if the folder cannot be written."""
    named = model_named(wanted.model)
    models = [named] if named else list(launch().models)
    for model in models:
        if odd := next((n for n in wanted.nodes if not divides(model, n)), 0):
            raise ConfigError(
                f"the global batch of {model} is not divisible by {odd} hosts of 8 GPUs",
                "use 1, 2, 4 or 8 hosts",
            )
    made = files(models, wanted.nodes, wanted.through, wanted.image, wanted.queue)
    for path, content in made.items():
        file = folder / path
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"{file} cannot be written ({error.strerror})", "name a folder that you own"
            ) from error
        yield file
