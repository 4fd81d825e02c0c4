"""What is written of a role's options, for one that is new as well."""

from pathlib import Path

import yaml  # noqa: TID251 - reads what was written

from appliance.config.role_pages import HEAD, publish


def test_a_new_role_gets_its_defaults_and_its_table(tmp_path: Path) -> None:
    role = tmp_path / "greet"
    (role / "meta").mkdir(parents=True)
    options = {"greet_times": {"description": "How often.", "type": "int", "default": 2}}
    specs = {"argument_specs": {"main": {"options": options}}}
    (role / "meta/argument_specs.yml").write_text(yaml.safe_dump(specs), encoding="utf-8")
    (role / "README.md").write_text(f"# greet\n\n## Variables\n{HEAD}", encoding="utf-8")
    publish(tmp_path)
    assert yaml.safe_load((role / "defaults/main.yml").read_text(encoding="utf-8")) == {
        "greet_times": 2
    }
    assert "| `greet_times` | `2` | how often |" in (role / "README.md").read_text(encoding="utf-8")
