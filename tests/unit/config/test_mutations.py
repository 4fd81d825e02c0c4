"""Whatever happens to a sound site, the answer is a site or a list of findings, never a traceback."""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.actions.profiles.limit_bounds import check_ids
from appliance.config.document import read
from appliance.config.finding import InvalidConfig, render
from appliance.config.load import LoadedSite, load_site
from appliance.errors import ConfigError
from appliance.models.site import Site

STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(10**17), max_value=10**17),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
    st.sampled_from(
        [
            "0.0.0.0",
            "10.0.0.0/0",
            "10.0.0.0/32",
            "255.255.255.255",
            "management",
            "/",
            "../..",
            "secrets",
            "x#y",
            "#",
            "1.36",
            "9" * 40,
            "gpu",
            "-----BEGIN PRIVATE KEY-----",
            "x" * 5000,
            "nul\0",
            "two\nlines",
            "\x1b[2J",
        ]
    ),
    st.just([]),
    st.just({}),
    st.lists(st.none(), min_size=1, max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(0, 9), max_size=3),
)

CHECK_IDS = check_ids()


def outcome(folder: Path) -> LoadedSite | ConfigError:
    """What becomes of a site; anything else than these two is a bug."""
    try:
        return load_site(folder, check_ids=CHECK_IDS)
    except InvalidConfig as error:
        return error if error.findings else ConfigError("")
    except ConfigError as error:
        return error


Step = tuple[object, str | int]


def places(data: object) -> Iterator[Step]:
    """Every container and key of a document."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield data, key
            yield from places(value)
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield data, index
            yield from places(value)


def mutate(data: dict[str, object], seed: random.Random, value: object) -> None:
    """Delete, rename, repeat, retarget or replace one key anywhere."""
    everywhere = list(places(data))
    if not everywhere:
        return
    container, key = seed.choice(everywhere)
    values = [c[k] for c, k in everywhere]  # type: ignore[index]
    action = seed.choice(["delete", "rename", "replace", "retarget", "repeat"])
    if isinstance(container, dict):
        old = container.pop(key)
        if action == "rename":
            container[f"{key}{seed.choice('xs_')}"] = old
        elif action in {"replace", "repeat"}:
            container[str(key)] = value
        elif action == "retarget":
            container[str(key)] = copy.deepcopy(seed.choice(values))
    elif isinstance(container, list) and isinstance(key, int):
        if action == "delete":
            del container[key]
        elif action == "repeat":
            container.append(copy.deepcopy(container[key]))
        else:
            container[key] = value


@given(seed=st.randoms(use_true_random=False), values=st.lists(STRANGE, min_size=1, max_size=4))
@settings(
    max_examples=120,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_mutated_site_loads_or_is_refused_with_findings(
    site_folder: Path, seed: random.Random, values: list[object]
) -> None:
    data = read(site_folder / "site.yml").data
    assert isinstance(data, dict)
    for value in values:
        mutate(data, seed, value)
    folder = site_folder / "mutated"
    folder.mkdir(exist_ok=True)
    for name in ("secrets", "known_hosts"):
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(site_folder / name)
    (folder / "site.yml").write_text(json.dumps(data, indent=1))
    answer = outcome(folder)
    if isinstance(answer, LoadedSite):
        assert Site.model_validate(answer.site.model_dump()) == answer.site
    else:
        assert answer.message
        assert isinstance(answer, InvalidConfig) or answer.hint


@given(text=st.text(max_size=200))
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_a_document_or_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "any.yml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        read(file)
    except InvalidConfig as error:
        findings = error.findings
    else:
        return
    assert len(render(findings).splitlines()) == len(findings) + 1


@pytest.mark.parametrize("cut", range(0, 1500, 37))
def test_site_cut_off_anywhere_is_refused_or_sound(site_folder: Path, cut: int) -> None:
    file = site_folder / "site.yml"
    file.write_text(file.read_text()[:cut])
    answer = outcome(site_folder)
    assert isinstance(answer, LoadedSite) or answer.message


def test_the_site_that_is_mutated_is_sound(site_folder: Path) -> None:
    loaded = load_site(site_folder, check_ids=CHECK_IDS)
    assert loaded.todo == ()
    assert loaded.profile.software.kai == "0.18"
