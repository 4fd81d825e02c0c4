"""From YAML to frozen models, and from models to role variables."""
