"""The JSON Schema of profile and site, for editors and other programs."""

import json

from appliance.models.base import Model
from appliance.models.profile import Profile
from appliance.models.site import Site

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MODELS: dict[str, type[Model]] = {"profile": Profile, "site": Site}


def schema(kind: str) -> str:
    """JSON Schema (2020-12) of "profile" or "site", as text with a final newline."""
    generated = MODELS[kind].model_json_schema()
    document = {"$schema": DIALECT, **generated, "title": f"appliance {kind}, version 1"}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
