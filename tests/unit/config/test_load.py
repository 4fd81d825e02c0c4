"""Where profiles and sites are found, and what loading one gives."""

from base64 import b64encode
from pathlib import Path

import pytest

from appliance.config import data
from appliance.config.finding import InvalidConfig
from appliance.config.load import find_profile, load_profile, load_site, profile_names
from appliance.errors import ApplianceError, ConfigError

HPC = (data.root() / "profiles/hpc.yml").read_text()


def test_profile_beside_the_caller_comes_before_the_shipped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/hpc.yml").write_text(HPC.replace("title: High", "title: Our"))
    monkeypatch.chdir(tmp_path)
    assert load_profile("hpc").title.startswith("Our")
    assert load_profile("balanced").name == "balanced"
    assert profile_names() == ("balanced", "cost-efficient", "dgx-a100", "hpc")


def test_profile_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_profile("hpc") == data.profiles() / "hpc.yml"


def test_unknown_profile_names_those_there_are() -> None:
    with pytest.raises(ConfigError) as refused:
        load_profile("hcp")
    assert "balanced, cost-efficient, dgx-a100, hpc" in refused.value.hint


def test_a_site_means_the_profile_beside_it_from_whatever_folder(
    site_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, title in ((site_folder, "Our"), (tmp_path / "other", "Their")):
        (folder / "profiles").mkdir(parents=True)
        (folder / "profiles/hpc.yml").write_text(HPC.replace("title: High", f"title: {title}"))
    for folder in (site_folder, tmp_path / "other", tmp_path):
        monkeypatch.chdir(folder)
        assert load_site(site_folder).profile.title.startswith("Our")
    (site_folder / "profiles/hpc.yml").unlink()
    assert load_site(site_folder).profile.title.startswith("High")


def test_a_profile_of_this_folder_is_told_by_its_folder_where_another_site_means_it(
    site_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "other/profiles"
    own.mkdir(parents=True)
    (own / "hpc.yml").write_text("version: 1\nname: hpc\n")
    monkeypatch.chdir(own.parent)
    with pytest.raises(InvalidConfig) as refused:
        load_site(site_folder)
    assert {f.file for f in refused.value.findings if f.level == "problem"} == {own / "hpc.yml"}
    (own / "hpc.yml").rename(own / "mine.yml")
    file = site_folder / "site.yml"
    file.write_text(file.read_text().replace("profile: hpc", "profile: nix"))
    with pytest.raises(InvalidConfig) as unknown:
        load_site(site_folder)
    (finding,) = (f for f in unknown.value.findings if f.key == "profile")
    assert f"mine (in {site_folder / 'profiles'} and {own}, and from the program)" in finding.remedy


def test_profile_file_named_by_a_site_is_beside_the_site(site_folder: Path) -> None:
    (site_folder / "mine.yml").write_text(HPC.replace("name: hpc", "name: mine"))
    file = site_folder / "site.yml"
    file.write_text(file.read_text().replace("profile: hpc", "profile: ./mine.yml"))
    assert load_site(site_folder).profile.name == "mine"


def test_profile_of_the_command_line_comes_before_the_site_s(site_folder: Path) -> None:
    file = site_folder / "site.yml"
    file.write_text(file.read_text().replace("profile: hpc", "profile: nonsense"))
    assert load_site(site_folder, "balanced").profile.name == "balanced"


def test_mistakes_of_site_and_profile_come_in_one_go(site_folder: Path) -> None:
    (site_folder / "mine.yml").write_text(HPC.replace("count: 8", "count: 17"))
    file = site_folder / "site.yml"
    text = file.read_text().replace("profile: hpc", "profile: ./mine.yml")
    file.write_text(text.replace("[gpu]", "[gpus]", 1))
    with pytest.raises(InvalidConfig) as refused:
        load_site(site_folder)
    assert {f.file.name for f in refused.value.findings} == {"mine.yml", "site.yml"}
    assert str(refused.value).count("nothing was contacted") == 2


def test_software_of_the_site_is_effective_in_its_profile(site_folder: Path) -> None:
    loaded = load_site(site_folder)
    assert loaded.profile.software.kai == "0.18"
    assert load_profile("hpc").software.kai == "0.16"


def test_loaded_site_knows_where_a_key_stands(site_folder: Path) -> None:
    loaded = load_site(site_folder)
    lines = (site_folder / "site.yml").read_text().splitlines()
    at = next(i for i, line in enumerate(lines, 1) if "clients:" in line)
    assert loaded.where("storage", "exports", 0, "clients") == f"{site_folder}/site.yml:{at}"
    assert loaded.where("storage", "exports", 0, "read_only") == f"{site_folder}/site.yml:{at - 1}"


def test_site_file_may_be_named_itself(site_folder: Path) -> None:
    assert load_site(site_folder / "site.yml").folder == site_folder


@pytest.mark.parametrize("place", ["nowhere", "."])
def test_missing_site_says_how_to_make_one(tmp_path: Path, place: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_site(tmp_path / place)
    assert "appliance init" in refused.value.hint


def test_step_left_to_the_owner_loads_but_is_not_ready(site_folder: Path) -> None:
    (site_folder / "known_hosts").unlink()
    loaded = load_site(site_folder)
    assert [todo.key for todo in loaded.todo] == ["access.known_hosts"]
    with pytest.raises(InvalidConfig, match="1 step left"):
        loaded.require_ready()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\xc3\x28\x00", "is not UTF-8 text"),
        (b"# ours\n\n10.0.0.1 ssh-ed25519 notbase64!\n", "has no host key in line 3"),
        (b"10.0.0.1 ssh-ed25519 AAAA\n", "has no host key in line 1"),
        (b"10.0.0.1 ssh-ed25519\n", "has no host key in line 1"),
    ],
)
def test_a_file_ssh_could_not_read_host_keys_from_is_refused(
    site_folder: Path, content: bytes, why: str
) -> None:
    (site_folder / "known_hosts").write_bytes(content)
    with pytest.raises(InvalidConfig, match=f"known_hosts {why}"):
        load_site(site_folder)


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ("*", "a pattern"),
        ("10.0.0.*", "a pattern"),
        ("head,10.0.0.?", "a pattern"),
        ("[10.0.0.*]:2222", "a pattern"),
        ("!10.0.0.1,*", "a pattern"),
        ("!10.0.0.1", "a pattern"),
        ("@cert-authority *", "the marker @cert-authority"),
        ("@cert-authority 10.0.0.1", "the marker @cert-authority"),
        ("\t@cert-authority\t10.0.0.1", "the marker @cert-authority"),
    ],
)
def test_a_line_that_holds_for_hosts_it_does_not_name_pins_nothing(
    site_folder: Path, names: str, why: str
) -> None:
    key = b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(32)).decode()
    (site_folder / "known_hosts").write_text(
        f"10.0.0.1 ssh-ed25519 {key}\n{names} ssh-ed25519 {key}\n"
    )
    with pytest.raises(InvalidConfig, match=f"known_hosts has {why} in line 2") as refused:
        load_site(site_folder)
    assert "appliance trust" in refused.value.findings[0].remedy


def test_host_keys_as_ssh_writes_them_are_taken(site_folder: Path) -> None:
    key = b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(32)).decode()
    lines = [
        f"10.0.0.1,head ssh-ed25519 {key}",
        f"@revoked [10.0.0.2]:2222 ssh-ed25519 {key} old",
        f"|1|c2FsdA==|aGFzaA== ssh-ed25519 {key}",
    ]
    (site_folder / "known_hosts").write_text("\n".join(lines))
    assert load_site(site_folder).todo == ()


def test_the_public_half_of_a_key_is_refused(site_folder: Path) -> None:
    (site_folder / "secrets" / "id_ed25519").write_text("ssh-ed25519 AAAA me")
    with pytest.raises(InvalidConfig, match="is a public key"):
        load_site(site_folder)


def test_the_public_half_of_a_key_is_refused_whatever_its_mode(site_folder: Path) -> None:
    key = site_folder / "secrets" / "id_ed25519"
    key.write_text("ssh-ed25519 AAAA me")
    key.chmod(0o644)
    with pytest.raises(InvalidConfig) as refused:
        load_site(site_folder)
    assert [f.remedy for f in refused.value.findings if "chmod" in f.remedy] == []
    assert "is a public key" in refused.value.message


def test_an_ordinary_user_may_look_but_not_deploy(site_folder: Path) -> None:
    file = site_folder / "site.yml"
    file.write_text(file.read_text().replace("user: root", "user: ada"))
    loaded = load_site(site_folder)
    assert [todo.key for todo in loaded.todo] == ["access.user"]
    loaded.require_ready(only_looks=True)
    with pytest.raises(InvalidConfig, match="not root"):
        loaded.require_ready()


def test_who_installs_hosts_need_not_know_their_keys_and_must_still_be_root(
    site_folder: Path,
) -> None:
    (site_folder / "known_hosts").unlink()
    load_site(site_folder).require_ready(learns_keys=True)
    file = site_folder / "site.yml"
    file.write_text(file.read_text().replace("user: root", "user: ada"))
    with pytest.raises(InvalidConfig, match="not root"):
        load_site(site_folder).require_ready(learns_keys=True)


def test_sound_site_is_ready(site_folder: Path) -> None:
    load_site(site_folder).require_ready()


def test_data_lies_in_the_wheel_or_beside_the_package() -> None:
    assert (data.root() / "profiles/hpc.yml").is_file()


def test_a_checkout_in_which_nothing_was_built_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "root", lambda: tmp_path)
    with pytest.raises(ApplianceError, match=r"appliance\.yml is missing") as refused:
        data.built_root()
    assert refused.value.hint == "run: make setup"
    (tmp_path / data.BUILT).parent.mkdir(parents=True)
    (tmp_path / data.BUILT).touch()
    assert data.built_root() == tmp_path
