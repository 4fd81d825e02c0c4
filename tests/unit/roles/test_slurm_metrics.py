"""What role observe's collector makes of Slurm's answers."""

import re
from pathlib import Path
from types import ModuleType

import pytest
from ansible_collections.appliance.host.plugins.module_utils.resources import slurm_node

from tests.support import role_programs

PROGRAM = Path("roles/observe/files/usr/local/libexec/appliance/slurm_metrics.py")
NODES = """\
gpu-1      |batch*    |mixed     |gpu:a100:8(S:0-1)  |gpu:a100:4(IDX:0-3)  |16/112/0/128  |none |
gpu-1      |debug     |mixed     |gpu:a100:8(S:0-1)  |gpu:a100:4(IDX:0-3)  |16/112/0/128  |none |
gpu-2      |batch*    |drained*  |gpu:a100:8(S:0-1)  |gpu:a100:0(IDX:N/A)  |0/0/128/128   |new cable|Monday |
gpu-3      |batch*    |drained   |gpu:a100:8(S:0-1)  |gpu:a100:0(IDX:N/A)  |0/0/128/128   |appliance: a host of kubernetes |
head       |batch*    |idle      |(null)             |gpu:0                |0/8/0/8       |none |
"""
JOBS = """\
7    |batch  |RUNNING |physics |ada |1 |16 |cpu=16,mem=64G,node=1,billing=16,gres/gpu=4 |gres:gpu:4 |2026-11-20T10:00:00 |2026-11-20T10:01:00 |gpu-1 |train |x |
8_[1-3] |batch |PENDING |physics |ada |2 |32 |N/A |gres:gpu:8 |2026-11-20T10:00:00 |N/A | |say "hi" |
9    |debug  |PENDING |        |bob |1 |1  | |N/A |2026-11-20T11:00:00 |N/A | |cpu |
"""
SHARES = "root||1.000000|1.000000|500\n physics||0.750000|0.900000|450\n physics|ada|0.5|0.9|450\n"
ENDED = "COMPLETED\nCANCELLED by 1000\nCOMPLETED\nNODE_FAIL\n"
END = "\0"
"""The end of a row where "|" and a line break are part of a name."""
ANSWERS = {"sinfo": NODES, "squeue": JOBS, "sshare": SHARES, "sacct": ENDED}


@pytest.fixture(scope="module")
def program() -> ModuleType:
    return role_programs.program(PROGRAM)


def said(command: tuple[str, ...], answers: dict[str, str]) -> str:
    """The answer as the format of the command asks for it: what stands behind the last field's width ends each row."""
    answer = answers[command[0]]
    ends = re.search(r":\.\d+(\|(\w+\|)?)$", command[-1])
    return answer.replace(END if END in answer else "|\n", ends[1] + "\n") if ends else answer


def told(program: ModuleType, *silent: str, **answers: str) -> dict[str, float]:
    """Series and values; programs in ``silent`` fail."""
    now = program.seconds("2026-11-20T12:00:00")
    known = {**ANSWERS, **answers}
    text = program.exposition(lambda c: None if c[0] in silent else said(c, known), now)
    lines = [line for line in text.split("\n") if line and not line.startswith("#")]
    series = dict(line.rsplit(" ", 1) for line in lines)
    assert len(series) == len(lines), "a series stands twice"
    return {name: float(value) for name, value in series.items()}


def test_hosts_and_partitions(program: ModuleType) -> None:
    seen = told(program)
    assert seen["slurm_up"] == 1
    assert seen['slurm_node_state{node="gpu-2",state="drained"}'] == 1
    assert seen['slurm_node_gpus{node="gpu-1"}'] == 8
    assert seen['slurm_node_gpus_allocated{node="gpu-1"}'] == 4
    assert seen['slurm_node_gpus{node="head"}'] == 0
    assert seen['slurm_node_cpus{node="gpu-1"}'] == 128
    assert seen['slurm_partition_gpus{partition="batch"}'] == 16
    assert seen['slurm_partition_nodes{partition="batch",state="idle"}'] == 1


def test_a_host_of_somebody_else_is_neither_drained_nor_idle_for_slurm(program: ModuleType) -> None:
    seen = told(program)
    assert seen['slurm_node_state{node="gpu-3",state="lent"}'] == 1
    assert [name for name in seen if 'node="gpu-3",state="drained"' in name] == []
    assert seen['slurm_partition_nodes{partition="batch",state="lent"}'] == 1
    assert seen['slurm_partition_gpus{partition="batch"}'] == 16


def test_the_reason_is_the_one_role_slurm_drains_by(program: ModuleType) -> None:
    assert program.LENT == slurm_node.OWNED


def test_jobs_by_partition_account_and_one_by_one(program: ModuleType) -> None:
    seen = told(program)
    assert seen['slurm_partition_jobs{partition="batch",state="running"}'] == 1
    assert seen['slurm_partition_jobs{partition="debug",state="running"}'] == 0
    assert seen['slurm_partition_oldest_pending_seconds{partition="batch"}'] == 7200
    assert seen['slurm_account_gpus{account="physics"}'] == 4
    assert seen['slurm_account_jobs{account="physics",state="pending"}'] == 1
    own = 'jobid="7",job_name="train |x",user="ada",account="physics"'
    assert seen[f'slurm_job_gpus{{{own},partition="batch",state="running"}}'] == 4
    assert seen['slurm_job_node{jobid="7",node="gpu-1"}'] == 1
    asked = [v for name, v in seen.items() if 'jobid="8_[1-3]"' in name and "_gpus" in name]
    assert asked == [16]


def test_shares_and_how_jobs_ended(program: ModuleType) -> None:
    seen = told(program)
    assert seen['slurm_account_share{account="physics"}'] == 0.75
    assert [name for name in seen if 'account="root"' in name] == []
    assert seen['slurm_jobs_ended{state="completed"}'] == 2
    assert seen['slurm_jobs_ended{state="cancelled"}'] == 1
    assert seen['slurm_jobs_ended{state="timeout"}'] == 0


JOB = "11 |batch |RUNNING |physics |mallory |1 |16 |gres/gpu=4 |gres:gpu:4 |2026-11-20T10:00:00 |2026-11-20T10:01:00 |gpu-1 |"
FORGED = "99 |batch |RUNNING |physics |bob |1 |1 |gres/gpu=64000 | |2026-11-20T10:00:00 |2026-11-20T10:01:00 |gpu-1 |x|"
NAMES = {
    "row": f"x|\n{FORGED}\ny",
    "rows": f"\n{FORGED}\n{FORGED}",
    "number": "x|\n99 |batch |RUNNING |physics |bob |abc |1 | | |N/A |N/A |gpu-1 |x",
    "series": 'x\nslurm_job_gpus{jobid="99",user="bob",state="running"} 64000\n',
    "label": 'x",user="bob',
    "backslash": "x\\",
    "returns": "x\r\x0b\x0c\x1c\x85\u2028\u2029y",
    "marked": "x|" + "0" * 32 + "|\n" + FORGED,
    "long": "x" * 5000,
    "text": "caf\u00e9 \u65e5\u672c",
    "not text": b"\xff\xfe".decode("utf-8", "replace"),
}
SERIES = re.compile(
    r'[a-z_]+(\{[a-z_]+="([^"\\\n]|\\.)*"(,[a-z_]+="([^"\\\n]|\\.)*")*\})? [0-9.e+-]+'
)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_no_name_of_a_job_is_more_than_a_name(program: ModuleType, name: str) -> None:
    rows = [*JOBS.split("|\n")[:-1], JOB + name, JOBS.split("|\n")[0].replace("7 ", "70 ", 1)]
    seen = told(program, squeue="".join(f"{row}{END}\n" for row in rows))
    assert all(map(SERIES.fullmatch, (f"{k} {v}" for k, v in seen.items())))
    assert not [
        s for s in seen if 'jobid="99"' in s or ('user="bob"' in s and 'account=""' not in s)
    ]
    own = [s for s in seen if s.startswith('slurm_job_gpus{jobid="11"')]
    assert len(own) == 1
    assert len(own[0]) < 500
    assert any('jobid="70"' in s for s in seen)


def test_nobody_learns_what_ends_the_row_of_a_job(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every user reads arguments in /proc, and scontrol renames a job within milliseconds."""
    for name in ("sinfo", "squeue"):
        (tmp_path / name).write_text('#!/bin/sh\necho "$SQUEUE_FORMAT2 / $0 $*"\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    jobs, nodes = program.ask(program.JOBS), program.ask(program.NODES)
    form, _, arguments = jobs.partition(" / ")
    assert form == program.JOBS[-1]
    assert "-t running" in arguments
    assert form.split("Name:.120")[-1] not in arguments + nodes
    assert "NodeList:.120" in nodes


def test_a_row_that_cannot_be_read_costs_itself_alone(
    program: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = [
        JOB.replace("|1 |16 |", f"|{n} |16 |").replace("11 ", f"2{i} ")
        for i, n in enumerate(("abc", "-1", "1e9", "٣"))
    ]
    odd.append(JOB.replace("|gpu-1 |", "|gpu-[a-b] |").replace("11 ", "25 "))
    odd.append(JOB.replace("|1 |16 |", "|1 |4K |").replace("11 ", "26 "))
    seen = told(program, squeue="".join(f"{row}x|\n" for row in odd) + JOBS)
    assert [s for s in seen if re.search(r'jobid="2[0-4]"', s)] == []
    (cpus,) = (v for s, v in seen.items() if s.startswith('slurm_job_cpus{jobid="26"'))
    assert cpus == 4096
    assert seen['slurm_partition_jobs{partition="batch",state="running"}'] == 2
    assert "5 of 9 rows could not be read" in capsys.readouterr().err
    seen = told(program, sinfo=NODES.replace("16/112/0/128", "x/y"), sshare="a||b|c|d\n" + SHARES)
    assert 'slurm_node_gpus{node="gpu-1"}' not in seen
    assert seen['slurm_node_gpus{node="gpu-2"}'] == 8
    assert seen['slurm_account_share{account="physics"}'] == 0.75


def test_a_reason_with_line_breaks_makes_no_host(program: ModuleType) -> None:
    row = "gpu-9 |batch* |idle |gpu:8 |gpu:0 |0/8/0/8 |x|"
    sinfo = NODES.replace("|\n", f"{END}\n").replace("new cable", f"x\n {row} \n y")
    seen = told(program, sinfo=sinfo)
    assert not [s for s in seen if "gpu-9" in s]
    assert seen['slurm_node_state{node="gpu-2",state="drained"}'] == 1


def test_a_user_who_submits_without_end_shuts_nobody_out(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "MOST_WAITING", 3)
    flood = [JOB.replace("RUNNING", "PENDING").replace("11 ", f"{i} ") for i in range(100, 200)]
    seen = told(program, squeue="".join(f"{row}x|\n" for row in flood) + JOBS)
    assert len([s for s in seen if "slurm_job_gpus{" in s and 'user="mallory"' in s]) == 3
    assert seen['slurm_account_jobs{account="physics",state="pending"}'] == 101
    assert any('jobid="8_[1-3]"' in s for s in seen)


def test_bytes_that_are_no_text_and_a_link_in_the_way_stop_nothing(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool, victim = tmp_path / "sinfo", tmp_path / "victim"
    tool.write_text("#!/bin/sh\nprintf 'a\\377b'\n")
    tool.chmod(0o755)
    assert program.ask((str(tool),)) == "a\ufffdb"
    victim.touch()
    (tmp_path / "slurm.prom.new").symlink_to(victim)
    monkeypatch.setattr(program.shutil, "which", lambda name: None)
    program.main(str(tmp_path))
    assert (tmp_path / "slurm.prom").read_text() == victim.read_text() == ""
    assert not (tmp_path / "slurm.prom").is_symlink()


def test_a_controller_that_does_not_answer_is_told_and_nothing_is_made_up(
    program: ModuleType,
) -> None:
    seen = told(program, "sinfo", "squeue")
    assert seen["slurm_up"] == 0
    made_up = [name for name in seen if re.match("slurm_(node|partition|job|account)_", name)]
    assert made_up == []


def test_accounting_that_does_not_answer_leaves_the_rest_whole(program: ModuleType) -> None:
    seen = told(program, "sacct", "sshare")
    assert (seen["slurm_up"], seen["slurm_accounting_up"]) == (1, 0)
    assert seen['slurm_node_gpus{node="gpu-1"}'] == 8
    assert not any("jobs_ended" in name for name in seen)


@pytest.mark.parametrize(
    ("gres", "count"),
    [
        ("gpu:a100:8(S:0-1)", 8),
        ("gpu:2(IDX:0-1)", 2),
        ("gres:gpu:4", 4),
        ("gres/gpu:h100:3", 3),
        ("gres:gpu:h100", 1),
        ("cpu=4,mem=1G,gres/gpu=16,gres/gpu:a100=16", 16),
        ("gpu:1g.10gb:7(S:0),gpu:a100:4", 11),
        ("(null)", 0),
        ("N/A", 0),
        ("license:2", 0),
    ],
)
def test_gpus_in_slurms_words(program: ModuleType, gres: str, count: int) -> None:
    assert program.gpus(gres) == count


def test_lists_of_hosts(program: ModuleType) -> None:
    assert program.hosts("head,gpu-[01-03,7],x") == [
        "head",
        "gpu-01",
        "gpu-02",
        "gpu-03",
        "gpu-7",
        "x",
    ]
    assert program.hosts("") == []


def test_nothing_is_written_where_slurm_is_not_installed(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program.shutil, "which", lambda _: None)
    program.main(str(tmp_path))
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("slurm.prom", "")]
