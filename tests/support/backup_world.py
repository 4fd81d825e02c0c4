"""A control host whose programs are small scripts, and a target folder."""

import json
from pathlib import Path

from appliance.backup import command

AGE = """\
#!/usr/bin/python3
# Stands in for age: its "encryption" is a line with the recipient before the content.
import sys
words = sys.argv[1:]
if "-d" in words:
    key = sys.stdin.buffer.read().strip()
    content = open(words[-1], "rb").read()
    head, _, rest = content.partition(b"\\n")
    if head != b"for " + key:
        sys.exit("age: error: no identity matched any of the recipients")
    sys.stdout.buffer.write(rest)
else:
    content = sys.stdin.buffer.read()
    with open(words[words.index("-o") + 1], "wb") as file:
        file.write(b"for " + words[1].encode() + b"\\n" + content)
"""
CLIENT = """\
#!/bin/sh
echo "$0 $*" | sed 's,.*/,,' >> "$RACK/said"
case "$*" in
*"SHOW TABLES"*) echo table ;;
*"creation_time"*) cat "$RACK/began" ;;
*"mod_time > "*) cat "$RACK/lost" ;;
*"mod_time"*) echo "$(cat "$RACK/jobs") 1000" ;;
*"COUNT(*)"*job_table*) cat "$RACK/jobs" ;;
*"COUNT(*)"*assoc_table*) echo 4 ;;
*"--execute"*) ;;
*) cat > "$RACK/loaded" ;;
esac
"""
PROGRAMS = {
    "age": AGE,
    "mariadb": CLIENT,
    "mariadb-dump": '#!/bin/sh\n[ ! -e "$RACK/broken" ] || { echo "mariadb-dump: Got error: 2002" >&2; exit 2; }\necho "-- a dump"\n',
    "setpriv": '#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n',
    "systemctl": '#!/bin/sh\necho "systemctl $*" >> "$RACK/said"\n',
    "sacctmgr": "#!/bin/sh\necho 'tiny|'\n",
    "scontrol": "#!/bin/sh\necho 'Slurmctld(primary) at head is UP'\n",
    "sinfo": "#!/bin/sh\necho slurm-wlm 22.05.8\n",
}
KEY = "age1key"


class World:
    """Files of the host below ``root``."""

    def __init__(self, root: Path) -> None:
        self.root, self.target = root, root / "target"
        self.settings = {
            **{"version": 1, "site": "tiny", "host": "head", "target": str(self.target)},
            **{"recipient": KEY, "keep_days": 14, "etcd": str(root / "etcd")},
            "slurm": {
                **{"cluster": "tiny", "database": "slurm_acct_db", "user": "slurm"},
                "state": str(root / "state"),
            },
        }
        self.target.mkdir()
        (root / "state").mkdir()
        (root / "state" / "job_state").write_text("jobs")
        (root / "slurmdbd.conf").write_text("StoragePass=open-sesame\n")
        self.note("jobs", "7")
        self.note("lost", "0")
        self.note("began", "500")

    def note(self, name: str, text: str) -> None:
        (self.root / name).write_text(text + "\n")

    @property
    def said(self) -> str:
        file = self.root / "said"
        return file.read_text() if file.exists() else ""

    def host(self) -> command.Host:
        return command.Host(json.loads(json.dumps(self.settings)))

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in (self.target / "tiny" / "head").iterdir())


def state(world: World) -> dict[str, object]:
    found: dict[str, object] = json.loads((world.root / "home" / "state.json").read_text())
    return found
