"""A new site is complete: it loads, its secrets are fresh and closed, and nothing of the user's is overwritten."""

import base64
import stat
from collections.abc import Sequence
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from appliance.actions.profiles.limit_bounds import check_ids
from appliance.actions.sites import init as action
from appliance.adapters import process
from appliance.config.load import load_profile, load_site
from appliance.errors import CommandFailed, ConfigError
from appliance.models.site import Owner, Role

NETWORK = IPv4Network("10.0.0.0/24")


@pytest.fixture(autouse=True)
def keygen(monkeypatch: pytest.MonkeyPatch) -> None:
    """ssh-keygen without the program: writes what it is asked for."""

    def run(argv: Sequence[str], **options: object) -> process.Completed:
        assert argv[:4] == ("ssh-keygen", "-q", "-t", "ed25519")
        file = Path(argv[-1])
        file.write_text("private")
        file.with_suffix(".pub").write_text("public")
        return process.Completed(tuple(argv), 0, "", "")

    monkeypatch.setattr(process, "run", run)


@pytest.mark.parametrize("hosts", [1, 2, 4, 100])
@pytest.mark.parametrize("profile", ["hpc", "balanced", "cost-efficient"])
def test_new_site_waits_for_host_keys_only(tmp_path: Path, hosts: int, profile: str) -> None:
    action.init(tmp_path / "acme", hosts, profile, None, NETWORK)
    loaded = load_site(tmp_path / "acme", check_ids=check_ids())
    assert [(t.key, t.level) for t in loaded.todo] == [("access.known_hosts", "todo")]
    assert len(loaded.site.hosts) == hosts
    assert loaded.profile.name == profile


def test_new_site_of_several_classes_names_them_on_its_hosts(tmp_path: Path) -> None:
    action.init(tmp_path / "acme", 0, "balanced", None, NETWORK, classes={"balanced": 2, "hpc": 1})
    loaded = load_site(tmp_path / "acme", check_ids=check_ids())
    assert [(t.key, t.level) for t in loaded.todo] == [("access.known_hosts", "todo")]
    named = [(host.name, host.hardware_class) for host in loaded.site.hosts]
    assert named == [("head", None), ("gpu-1", None), ("gpu-2", None), ("gpu-3", "hpc")]
    assert [loaded.profile_of(name).name for name, _ in named] == ["balanced"] * 3 + ["hpc"]


def test_too_many_hosts_of_one_class_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--gpu-hosts hpc=129: profile hpc supports 1 to 128"):
        action.init(
            tmp_path / "acme",
            0,
            "balanced",
            None,
            IPv4Network("10.0.0.0/16"),
            classes={"balanced": 1, "hpc": 129},
        )
    assert not (tmp_path / "acme").exists()


@pytest.mark.parametrize("hosts", [1, 2, 4])
@pytest.mark.parametrize(("kubernetes", "slurm"), [(True, False), (True, True), (False, True)])
def test_new_site_has_the_schedulers_that_were_asked_for(
    tmp_path: Path, hosts: int, kubernetes: bool, slurm: bool
) -> None:
    action.init(tmp_path / "acme", hosts, "hpc", None, NETWORK, kubernetes=kubernetes, slurm=slurm)
    loaded = load_site(tmp_path / "acme", check_ids=check_ids())
    assert [(t.key, t.level) for t in loaded.todo] == [("access.known_hosts", "todo")]
    site, secrets = loaded.site, tmp_path / "acme/secrets"
    assert (site.kubernetes is not None, site.slurm is not None) == (kubernetes, slurm)
    assert (secrets / "munge_key").exists() == slurm
    if kubernetes:
        key = secrets / "kubernetes_encryption_key"
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert len(base64.b64decode(key.read_text())) == 32
        assert site.scheduler is not None
        assert len(site.scheduler.projects) == 2
    of_slurm = [host.name for host in site.gpu_hosts_of(Owner.SLURM)] if slurm else []
    several = [f"gpu-{hosts - 1}"] if hosts > 2 else []
    alone = [host.name for host in site.with_role(Role.GPU)]
    assert of_slurm == ((several if kubernetes else alone) if slurm else [])


def test_a_site_without_any_scheduler_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no scheduler is left"):
        action.init(tmp_path / "acme", 4, "hpc", None, NETWORK, kubernetes=False)
    assert not (tmp_path / "acme").exists()


def test_everything_secret_is_fresh_and_closed(tmp_path: Path) -> None:
    texts = []
    for name in ("a", "b"):
        action.init(tmp_path / name, 2, "hpc", None, NETWORK, slurm=True)
        secrets = tmp_path / name / "secrets"
        assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
        for file in (f for f in secrets.iterdir() if f.suffix != ".pub"):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
        key = (secrets / "munge_key").read_text()
        assert len(base64.b64decode(key)) == 128
        texts.append((key, (secrets / "slurmdbd_password").read_text()))
    assert len({text for pair in texts for text in pair}) == 4
    assert "secrets/" in (tmp_path / "a/.gitignore").read_text().splitlines()


def test_used_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "site.yml").write_text("mine")
    with pytest.raises(ConfigError, match="not empty"):
        action.init(tmp_path, 2, "hpc", None, NETWORK)
    assert [f.name for f in tmp_path.iterdir()] == ["site.yml"]


def test_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(argv: Sequence[str], **options: object) -> process.Completed:
        raise CommandFailed("ssh-keygen: No such file or directory")

    monkeypatch.setattr(process, "run", run)
    with pytest.raises(CommandFailed):
        action.init(tmp_path / "acme", 2, "hpc", None, NETWORK)
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("folder", "hosts", "profile", "name", "network", "says"),
    [
        ("acme", 3, "hcp", None, "10.0.0.0/24", "unknown profile"),
        ("acme", 3, "hpc", "ACME!", "10.0.0.0/24", "is not a valid name of a site"),
        ("...", 3, "hpc", None, "10.0.0.0/24", "is not a valid name of a site"),
        ("acme", 30, "hpc", None, "10.0.0.0/28", "too few addresses"),
        ("acme", 246, "hpc", None, "10.0.0.0/24", "too few addresses"),
        ("acme", 200, "hpc", None, "10.0.0.0/24", "1 to 128"),
        ("acme", 99_999_999_999, "hpc", None, "10.0.0.0/24", "too few addresses"),
        ("acme", 2, "hpc", None, "255.255.255.252/30", "too few addresses"),
        ("ac\nme", 2, "hpc", "acme", "10.0.0.0/24", "control character"),
    ],
)
def test_impossible_site_is_refused_before_anything_is_written(
    tmp_path: Path, folder: str, hosts: int, profile: str, name: str | None, network: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        action.init(tmp_path / folder, hosts, profile, name, IPv4Network(network))
    assert not (tmp_path / folder).exists()


def test_a_site_that_would_be_refused_is_not_written_and_can_be_asked_for_anew(
    tmp_path: Path,
) -> None:
    with pytest.raises(
        ConfigError, match=r"networks\.management\.cidr: 127\.0\.0\.0/24 cannot contain hosts"
    ):
        action.init(tmp_path / "acme", 2, "hpc", None, IPv4Network("127.0.0.0/24"))
    assert action.init(tmp_path / "acme", 2, "hpc", None, NETWORK).site.name == "acme"


def test_what_a_shell_would_split_is_quoted_where_it_is_to_be_copied(tmp_path: Path) -> None:
    loaded = action.init(tmp_path / "my site", 2, "hpc", "acme", NETWORK)
    quoted = f"appliance trust --site '{tmp_path}/my site'"
    assert quoted in (tmp_path / "my site/site.yml").read_text()
    assert quoted in loaded.todo[0].remedy


def test_a_class_in_a_file_is_named_relative_to_the_site(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yml"
    mine.write_text(load_profile("hpc").model_copy(update={"name": "mine"}).model_dump_json())
    classes = {"balanced": 1, str(mine): 1}
    loaded = action.init(tmp_path / "acme", 0, "balanced", None, NETWORK, classes=classes)
    assert loaded.site.hosts[2].hardware_class == "../mine.yml"
    assert loaded.profile_of("gpu-2").name == "mine"


def test_profile_file_is_named_relative_to_the_site(tmp_path: Path) -> None:
    shipped = load_profile("hpc")
    mine = tmp_path / "mine.yml"
    mine.write_text(shipped.model_copy(update={"name": "mine"}).model_dump_json())
    action.init(tmp_path / "acme", 2, str(mine), None, NETWORK)
    assert "../mine.yml" in (tmp_path / "acme/site.yml").read_text()
    assert load_site(tmp_path / "acme").profile.name == "mine"
