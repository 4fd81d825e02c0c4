"""The text of a screen of Textual, from the picture that it exports."""

import re
from html import unescape
from xml.etree import ElementTree

CELL = 12.2
"""Width of a cell in the picture, as rich draws it."""
SVG = "{http://www.w3.org/2000/svg}"


def text_of(svg: str) -> str:
    """The lines of the screen, without trailing blanks."""
    rows: dict[int, dict[int, str]] = {}
    for node in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        if "clip-path" in node.attrib and "-line-" in node.attrib["clip-path"]:
            number = int(re.findall(r"-line-(\d+)", node.attrib["clip-path"])[0])
            column = round(float(node.attrib["x"]) / CELL)
            said = unescape("".join(node.itertext())).replace("\xa0", " ")
            rows.setdefault(number, {})[column] = said
    lines = []
    for number in range(max(rows, default=-1) + 1):
        line = ""
        for column, said in sorted(rows.get(number, {}).items()):
            line = line.ljust(column) + said
        lines.append(line.rstrip())
    return "\n".join(lines)
