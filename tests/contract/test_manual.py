"""The manual pages say what the command line says, in roff that prints as it stands."""

import re
import shutil
import subprocess  # noqa: TID251 - the formatter of manual pages

import click
import pytest

from appliance.cli.main import cli
from tools.published.manual import escaped, pages

REQUESTS = {"BR", "PP", "SH", "SS", "TH", "TP", "ad", "fi", "nf", "nh"}
ESCAPE = re.compile(r"\\(?:[-e&:]|f[BP]|\([a-z]{2}|\[u[0-9A-F]{4,6}\])")
GROFF = shutil.which("groff")
each_page = pytest.mark.parametrize("name", sorted(pages()))


@each_page
def test_only_known_requests_and_escapes_stand_in_a_page(name: str) -> None:
    text = pages()[name]
    assert set(re.findall(r"^[.'](\w*)", text, re.M)) <= REQUESTS
    assert "\\" not in ESCAPE.sub("", text)
    assert text.isascii()


@pytest.mark.skipif(not GROFF, reason="no groff on this machine")
@each_page
def test_groff_formats_the_page_without_a_warning(name: str) -> None:
    assert _said(pages()[name]) == ""


@pytest.mark.skipif(not GROFF, reason="no groff on this machine")
@pytest.mark.parametrize("broken", [".SH X\n.NOSUCH\n", ".PP\n\\[nosuchsign]\n"])
def test_groff_warns_of_a_page_that_is_broken(broken: str) -> None:
    assert _said(f"{broken}\n") != ""


@pytest.mark.skipif(not GROFF, reason="no groff on this machine")
@pytest.mark.parametrize(
    "text", [".SH is no request", "'br is none", "a\\fBb", "--full `x` ^ ~", "200 Gb/s · 80 °C"]
)
def test_text_is_printed_as_it_stands(text: str) -> None:
    assert text in _formatted(f".TH X 1\n.SH NAME\n{escaped(text)}\n").stdout


def test_every_option_of_a_verb_stands_in_its_page() -> None:
    def options(command: click.Command) -> set[str]:
        shown = [param for param in command.params if not getattr(param, "hidden", False)]
        own = {name for param in shown for name in param.opts if name.startswith("--")}
        inner = command.commands.values() if isinstance(command, click.Group) else ()
        return own.union(*map(options, inner))

    made = pages()
    for verb in cli.commands:
        page = made[f"appliance-{verb}.1"]
        assert [o for o in options(cli.commands[verb]) if escaped(o) not in page] == []


def _said(text: str) -> str:
    return _formatted(text).stderr


def _formatted(text: str) -> "subprocess.CompletedProcess[str]":
    # An image with its digest is longer than a line, and stays whole.
    command = [str(GROFF), "-man", "-ww", "-Wbreak", "-Tutf8", "-P-c"]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
