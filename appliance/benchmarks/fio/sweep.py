"""One run of fio on one directory: its script, and the parser of its JSON and bandwidth logs (fio 3.x)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pydantic import Field

from appliance.benchmarks.reading import Foreign, Rate, Unread, document, number
from appliance.text import one_line, shortened

TOOL = {"fio": "apt-get install fio there (Debian, Ubuntu), dnf install fio (RHEL)"}
LOG = "appliance-log "
PARTS = ("seq_write", "seq_read", "rand_write", "rand_read", "create")
SAME = 0.02
"""Maximum relative difference between a rate and its components; fio rounds to whole milliseconds."""
MOST = 1e12
"""Bytes/s: no host's memory is so fast."""
WRITES = frozenset({"seq_write", "rand_write"})

# $1 directory, $2 seconds of each part, $3 size of each of four files, $4 small files of each, $5 the parts.
# Direct I/O measures the storage and not the page cache. Every client has files of its own, because
# two hosts that write the same blocks measure locks. Files are always removed.
# All users may write to the directory, so the folder in it is new, closed, and has an unpredictable name. fio runs in it as
# nobody, so that no link can lead it to files of others. If the server maps root of a client to nobody, fio runs as the mapped user. Without
# a sticky bit, others can rename the folder at once, so fio starts only in one that is closed and empty.
SCRIPT = """
d=$(mktemp -d "$1/.appliance-fio-XXXXXXXXXX") || exit 1
trap 'rm -rf "$d"' EXIT; trap 'exit 1' TERM INT
cd "$d" || exit 1
seconds=$2 size=$3 files=$4
set -- $5; parts=; for part; do parts="$parts --section=$part"; done
as=
if [ "$(id -u)" = 0 ]; then
  # The group of a place may be its files', too.
  case "$(stat -c %a .)$(ls -A .)" in 700|2700) ;; *) echo "$d: another has changed it" >&2; exit 1;; esac
  chown 65534:65534 . 2>/dev/null
  as="setpriv --reuid=$(stat -c %u .) --regid=$(stat -c %g .) --clear-groups"
  $as test -w . 2>/dev/null || as=
fi
$as fio --output-format=json $parts - <<END || exit
[global]
directory=.
filename_format=data.\\$jobnum
size=$size
numjobs=4
group_reporting
direct=1
ioengine=libaio
time_based
runtime=$seconds
log_avg_msec=500
per_job_logs=0
[seq_write]
stonewall
rw=write
bs=1m
iodepth=8
end_fsync=1
write_bw_log=seq_write
[seq_read]
stonewall
rw=read
bs=1m
iodepth=8
write_bw_log=seq_read
[rand_write]
stonewall
rw=randwrite
bs=4k
iodepth=32
[rand_read]
stonewall
rw=randread
bs=4k
iodepth=32
[create]
stonewall
ioengine=filecreate
filename_format=small.\\$jobnum.\\$filenum
time_based=0
direct=0
fallocate=none
nrfiles=$files
filesize=4k
openfiles=1
create_on_open=1
END
for log in *_bw.log; do [ -f "$log" ] && { echo "appliance-log ${log%_bw.log}"; $as cat "$log"; }; done; :
"""


class Direction(Foreign):
    """One direction of one job, over all of its threads. ``runtime`` in ms."""

    bw_bytes: Rate
    iops: Rate
    io_bytes: Rate
    total_ios: Rate
    runtime: Rate

    @property
    def contradicts_itself(self) -> bool:
        """Whether its rates differ from the amount of data moved in that time: a confused unit, or forged output."""
        per_second = self.runtime / 1000
        pairs = ((self.bw_bytes, self.io_bytes), (self.iops, self.total_ios))
        return any(
            abs(rate * per_second - moved) > SAME * moved + per_second for rate, moved in pairs
        )


class Job(Foreign):
    """One section of the job file."""

    jobname: str = Field(max_length=64)
    error: int
    read: Direction
    write: Direction


class Printed(Foreign):
    """The document of ``fio --output-format=json``."""

    version: str = Field(alias="fio version", max_length=64)
    jobs: tuple[Job, ...] = Field(max_length=64)


@dataclass(frozen=True)
class Sweep:
    """Result per part: bytes/s of sequential parts, operations/s of random ones, files/s of ``create``.

    ``decay``: for sequential parts that are long enough, by how many percent the last third is slower than the first.
    """

    version: str
    rates: Mapping[str, float]
    bandwidth: Mapping[str, float]
    decay: Mapping[str, float]


def script_arguments(
    directory: str, seconds: int, size: str, files: int, parts: Sequence[str]
) -> tuple[str, ...]:
    """Arguments of SCRIPT. ``size`` in fio's notation, "256m"."""
    return (directory, str(seconds), size, str(files), " ".join(parts))


def read(output: str, parts: Sequence[str]) -> Sweep:
    """Raises Unread if a part is missing, ended with an error, or moved no data."""
    text, *logs = output.split(f"\n{LOG}")
    printed = document(Printed, text)
    jobs = {job.jobname: job for job in printed.jobs}
    named = [log.partition("\n")[0].strip() for log in logs]
    if len(jobs) < len(printed.jobs) or len(set(named)) < len(named):
        raise Unread("a part occurs twice: two runs in one output")
    rates, bandwidth = {}, {}
    for part in parts:
        job = jobs.get(part)
        if job is None:
            raise Unread(f"part {part} is missing")
        if job.error:
            raise Unread(f"part {part} ended with error {job.error}")
        # The engine filecreate counts created files as reads.
        moved = job.write if part in WRITES else job.read
        if not moved.io_bytes or not moved.runtime:
            raise Unread(f"part {part} moved no byte")
        if moved.contradicts_itself:
            raise Unread(
                f"part {part} contradicts itself: its rates do not match its bytes and time"
            )
        if moved.bw_bytes > MOST:
            raise Unread(f"part {part} cannot have reached {moved.bw_bytes:.3g} bytes/s")
        rates[part] = moved.bw_bytes if part.startswith("seq") else moved.iops
        bandwidth[part] = moved.bw_bytes
    decay = {name: found for log in logs for name, found in _decay(log) if name in parts}
    return Sweep(shortened(one_line(printed.version), 40), rates, bandwidth, decay)


def _decay(log: str) -> list[tuple[str, float]]:
    """ "time ms, KiB/s, direction, block size, priority" per thread and interval."""
    name, _, lines = log.partition("\n")
    sums: dict[int, float] = {}
    for line in filter(str.strip, lines.splitlines()):
        words = [word.strip() for word in line.split(",")]
        if len(words) < 3:
            raise Unread(f"a line of the log of {name[:20]} is incomplete")
        at = round(number(words[0], "the time") / 500)
        sums[at] = sums.get(at, 0.0) + number(words[1], "the bandwidth")
    steps = [sums[at] for at in sorted(sums)]
    if len(steps) < 6 or any(later - earlier > 2 for earlier, later in pairwise(sorted(sums))):
        return []
    third = len(steps) // 3
    first, last = sum(steps[:third]) / third, sum(steps[-third:]) / third
    return [(name.strip(), max(0.0, (first - last) / first * 100))] if first else []
