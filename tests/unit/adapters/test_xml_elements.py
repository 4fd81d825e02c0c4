"""XML of another machine: a tree, or one line that says why not. What a document could make a reader fetch or grow is refused."""

import pytest

from appliance.adapters import xml_elements


def test_a_document_is_a_tree_of_its_elements() -> None:
    top = xml_elements.root(
        "<?xml version='1.0'?><!-- c --><a x='1'>t<b>&lt;&#65;</b>u<b/><c/></a>"
    )
    assert (top.tag, top.attributes, top.text) == ("a", {"x": "1"}, "tu")
    assert [child.text for child in top.named("b")] == ["<A", ""]


def test_its_own_word_for_another_encoding_is_passed_over() -> None:
    assert xml_elements.root("<?xml version='1.0' encoding='utf-16'?><a>é</a>").text == "é"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not XML"),
        ("{}", "not XML"),
        ("<a>", "not XML"),
        ("<a/><b/>", "not XML"),
        ("<a x='1' x='2'/>", "not XML"),
        ("<a>&made_up;</a>", "not XML"),
        ("<a>\x00</a>", "not XML"),
        ("<!DOCTYPE a><a/>", "document type ('a')"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "document type"),
        ("<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>", "document type"),
        ("<!DOCTYPE a SYSTEM 'http://192.0.2.1/a.dtd'><a/>", "document type"),
        ("<!DOCTYPE a [<!ENTITY % b SYSTEM 'file:///dev/zero'>%b;]><a/>", "document type"),
        ("<a>" * 17 + "</a>" * 17, "nested deeper than 16"),
        ("<a>" * 1_000_000, "nested deeper than 16"),
        ("<a>" + "<b/>" * 200_000 + "</a>", "more than 200000 elements"),
    ],
)
def test_what_is_none_or_could_cost_more_is_refused_in_one_line(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=r".") as found:
        xml_elements.root(text)
    assert told in str(found.value)
    assert "\n" not in str(found.value)


def test_as_deep_and_as_many_as_may_be_is_read() -> None:
    assert xml_elements.root("<a>" * 16 + "</a>" * 16).tag == "a"
    assert len(xml_elements.root("<a>" + "<b/>" * 199_999 + "</a>").children) == 199_999
