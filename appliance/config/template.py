"""Fills in templates of text files."""


def filled(template: str, **values: object) -> str:
    """``template`` with ``values``; a name it lacks is an error."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(values)
