"""The schema of profile and site as JSON Schema, for editors and for other programs."""

import json
from pathlib import Path

from appliance.config import data
from appliance.models.base import Model
from appliance.models.profile import Profile
from appliance.models.site import Site

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MODELS: dict[str, type[Model]] = {"profile": Profile, "site": Site}
FOLDER = Path("docs/schema")


def schema(kind: str) -> str:
    """JSON Schema (2020-12) of "profile" or "site", as text with a final newline."""
    model = MODELS[kind]
    document = {
        "$schema": DIALECT,
        **model.model_json_schema(),
        "title": f"appliance {kind}, version 1",
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def publish(checkout: Path) -> tuple[Path, ...]:
    """Write docs/schema/*.json of a checkout; run after a change of the models."""
    files = {checkout / FOLDER / f"{kind}.json": schema(kind) for kind in MODELS}
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tuple(files)


if __name__ == "__main__":
    publish(data.root())
