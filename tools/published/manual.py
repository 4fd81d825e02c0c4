"""The manual pages: what each command says of itself, as roff."""

import re
from collections.abc import Iterable, Iterator

import click

from appliance import __version__
from appliance.cli.main import cli
from appliance.cli.verbs import VERBS

HELP = ("-h, --help", "Show this message and exit.")
AS_TYPED = "\b"
"""Begins a paragraph whose lines click leaves as they are."""
AS_ROFF = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"}
"""Signs that begin an escape, or that roff prints as another one."""
EXITS = (
    ("0", "Good."),
    ("1", "Something failed; each failure is named with its host, cause and remedy."),
    ("2", "Unusable input or option; no host was contacted."),
    ("3", "Incomplete: something required could not be judged."),
    ("130", "Interrupted; the same command continues."),
)


def pages() -> dict[str, str]:
    """File name -> text of the program's page and of one page a verb."""
    context = click.Context(cli, info_name="appliance", **cli.context_settings)
    found = {"appliance.1": _program(context)}
    for name, says in VERBS.items():
        found[f"appliance-{name}.1"] = _verb(context, name, says)
    return found


def escaped(text: str) -> str:
    """Text that roff prints as it stands and people can copy: neither escapes nor requests, no sign made typographic."""
    plain = "".join(AS_ROFF.get(c) or (c if c.isascii() else f"\\[u{ord(c):04X}]") for c in text)
    # A long list of choices may go on in the next line.
    return re.sub(r"^(?=\.)", r"\\&", plain.replace("|", "|\\:"), flags=re.M)


def _program(context: click.Context) -> str:
    lines = [*_head("appliance", "provision GPU appliances, prove them, hand them over")]
    lines += _about(cli, context)
    lines += [".SH COMMANDS", *_listed((f"appliance {n}", says) for n, says in VERBS.items())]
    lines += [".SH EXIT STATUS", *_listed(EXITS)]
    also = (f".BR appliance\\-{name} (1)" for name in sorted(VERBS))
    return _ended([*lines, ".SH SEE ALSO", *also])


def _verb(parent: click.Context, name: str, says: str) -> str:
    command = cli.commands[name]
    context = click.Context(command, info_name=name, parent=parent)
    lines = [*_head(f"appliance-{name}", says.rstrip(".")), *_about(command, context)]
    if isinstance(command, click.Group):
        lines += [".SH COMMANDS", *_commands(command, context)]
    return _ended([*lines, ".SH SEE ALSO", ".BR appliance (1)"])


def _head(name: str, says: str) -> Iterator[str]:
    # No date: it would change with every release, and say nothing the version does not.
    yield f'.TH {escaped(name).upper()} 1 "" "appliance {__version__}" "appliance"'
    # What is typed stays whole.
    yield from (".nh", ".ad l", ".SH NAME", f"{escaped(name)} \\- {escaped(says)}")


def _about(command: click.Command, context: click.Context) -> Iterator[str]:
    yield from (".SH SYNOPSIS", _usage(command, context))
    yield from (".SH DESCRIPTION", *_text(command.help or ""))
    yield from (".SH OPTIONS", *_options(command, context))


def _commands(group: click.Group, parent: click.Context) -> Iterator[str]:
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        assert command
        context = click.Context(command, info_name=name, parent=parent)
        yield f".SS {escaped(context.command_path)}"
        yield _usage(command, context)
        yield from _text(command.help or "")
        yield from _options(command, context)


def _usage(command: click.Command, context: click.Context) -> str:
    pieces = (escaped(piece) for piece in command.collect_usage_pieces(context))
    return " ".join((f"\\fB{escaped(context.command_path)}\\fP", *pieces))


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    # Click keeps the option --help as the first context of the process named it.
    records = (param.get_help_record(context) for param in command.params)
    return _listed([*(record for record in records if record), HELP])


def _text(text: str) -> Iterator[str]:
    """Paragraphs of a help text; those marked as typed keep their lines."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in paragraph.splitlines()]
        if AS_TYPED in lines[0]:
            yield from (".PP", ".nf", *map(escaped, lines[1:]), ".fi")
        else:
            yield from (".PP", escaped(" ".join(lines)))


def _listed(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, says in rows:
        yield from (".TP", f"\\fB{escaped(term)}\\fP", escaped(" ".join(says.split())) or "\\&")


def _ended(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
