"""Builds the Debian package of a control machine: python -m tools.debian FOLDER (make deb).

The package holds an environment in /opt/appliance, made of the wheel and of requirements.lock with enforced hashes, and
links to its program, manual pages and completion. It is for the Debian release and processor that it is built on.
The same commit, Python and wheels of the lock give the same bytes.
"""

import gzip
import os
import platform
import re
import shutil
import subprocess  # noqa: TID251 - runs uv and dpkg-deb
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from appliance import __version__
from tools import release

PREFIX = Path("/opt/appliance")
PYTHON = "/usr/bin/python3"
EPOCH = "315619200"
"""1980-01-02: the time of every file in the package."""
LARGEST = 250 << 20
"""Bytes that the package may occupy when it is installed."""
CONTROL = """\
Package: appliance
Version: {version}
Architecture: {architecture}
Maintainer: appliance <root@localhost>
Depends: python3 (>= {python}), python3 (<< {next}), openssh-client
Installed-Size: {kib}
Section: admin
Priority: optional
Description: provisioning, proof and hand-over of GPU appliances
 The control machine's program with its locked Python packages in {prefix}.
"""


def build(folder: Path) -> Path:
    """Writes the package into ``folder``. Raises CalledProcessError if uv refuses a file, SystemExit if it is too large."""
    with TemporaryDirectory() as work:
        root = Path(work) / "root"
        dist = Path(work) / "dist"
        dist.mkdir()
        release.wheels(dist)
        _environment(root, dist)
        _links(root)
        size = sum(f.lstat().st_size for f in root.rglob("*") if not f.is_dir())
        if size > LARGEST:
            raise SystemExit(f"the package occupies {size >> 20} MB; {LARGEST >> 20} are allowed")
        return _packed(root, folder, size)


def _environment(root: Path, dist: Path) -> None:
    """An environment without pip, of Debian's own Python; scripts name the place where it will be."""
    venv = root / PREFIX.relative_to("/")
    subprocess.run((PYTHON, "-m", "venv", "--without-pip", venv), check=True)
    site = next(venv.glob("lib/python3*/site-packages"))
    subprocess.run(
        (
            *("uv", "pip", "install", "-q", "--python", venv / "bin/python", "--link-mode=copy"),
            *("--require-hashes", "--no-build", "-r", release.LOCK),
        ),
        cwd=dist,
        check=True,
    )
    # They name the folder of this build or its time, or files with its name.
    for name in ("direct_url.json", "uv_cache.json", "RECORD"):
        for stray in site.glob(f"*.dist-info/{name}"):
            stray.unlink()
    for script in (venv / "bin").iterdir():
        if script.is_file() and not script.is_symlink():
            script.write_text(
                script.read_text(encoding="utf-8").replace(str(venv), str(PREFIX)),
                encoding="utf-8",
            )
    config = venv / "pyvenv.cfg"
    kept = re.sub(r"(?m)^command = .*\n", "", config.read_text(encoding="utf-8"))
    config.write_text(kept, encoding="utf-8")


def _links(root: Path) -> None:
    """Program, manual pages and completion, where Debian looks for them; the licence."""
    program = root / "usr/bin/appliance"
    program.parent.mkdir(parents=True)
    program.symlink_to(PREFIX / "bin/appliance")
    venv = root / PREFIX.relative_to("/")
    pages = root / "usr/share/man/man1"
    pages.mkdir(parents=True)
    for page in sorted((venv / "share/man/man1").glob("appliance*.1")):
        (pages / f"{page.name}.gz").write_bytes(gzip.compress(page.read_bytes(), 9, mtime=0))
    shells = {
        "bash": "usr/share/bash-completion/completions/appliance",
        "zsh": "usr/share/zsh/vendor-completions/_appliance",
        "fish": "usr/share/fish/vendor_completions.d/appliance.fish",
    }
    for shell, name in shells.items():
        said = subprocess.run(
            (sys.executable, "-m", "appliance", "completion", shell),
            check=True,
            capture_output=True,
        )
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(said.stdout)
    licence = root / "usr/share/doc/appliance/copyright"
    licence.parent.mkdir(parents=True)
    shutil.copyfile(release.ROOT / "LICENSE", licence)


def _packed(root: Path, folder: Path, size: int) -> Path:
    asked = (PYTHON, "-c", "import sys; print(*sys.version_info[:2])")
    major, minor = map(int, subprocess.check_output(asked, text=True).split())
    said = subprocess.check_output(("dpkg", "--print-architecture"), text=True).strip()
    system = platform.freedesktop_os_release()
    version = f"{__version__.replace('rc', '~rc')}+{system['ID']}{system['VERSION_ID']}"
    control = CONTROL.format(
        version=version,
        architecture=said,
        python=f"{major}.{minor}",
        next=f"{major}.{minor + 1}",
        kib=size >> 10,
        prefix=PREFIX,
    )
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN/control").write_text(control, encoding="utf-8")
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"appliance_{version}_{said}.deb"
    subprocess.run(
        ("dpkg-deb", "--root-owner-group", "-Zzstd", "-z9", "--build", root, target),
        check=True,
        stdout=subprocess.DEVNULL,
        # dpkg-deb sets every later time to this one.
        env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH},
    )
    return target


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))  # noqa: T201 - what was made
