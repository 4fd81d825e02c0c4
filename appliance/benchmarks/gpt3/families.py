"""The formats in which NeMo 1.x and 2.x, NeMo's DLLogger, Megatron-LM and Megatron-Bridge print a step."""

import re
from dataclasses import dataclass

RUNNING_MEAN = "each value is a running mean of 5 steps, so one slow step shows in five values"
OVER_INTERVAL = "each value is a mean over the log interval; the first one includes the start"
SINGLE = 2.0**-24
"""Maximum relative error of a value that was stored in single precision."""


@dataclass(frozen=True)
class Family:
    """The format in which one program prints a step. Every such line contains ``mark``; ``closed`` must follow the value
    of a complete line.

    ``first`` is the number of the first step; ``scale`` converts its unit to seconds; ``significant`` is the number of
    significant digits of the format, 0 if all printed decimals count. ``precision``: if all digits of a value are printed,
    the relative error of its storage format. ``clock`` finds the time at which the line was written.
    """

    name: str
    mark: bytes
    line: re.Pattern[bytes]
    seconds: re.Pattern[bytes]
    closed: re.Pattern[bytes]
    key: str
    first: int = 1
    scale: float = 1.0
    significant: int = 0
    precision: float = 0.0
    loss: re.Pattern[bytes] | None = None
    batch: re.Pattern[bytes] | None = None
    samples: re.Pattern[bytes] | None = None
    counted: re.Pattern[bytes] | None = None
    clock: re.Pattern[bytes] | None = None
    tflops: re.Pattern[bytes] | None = None
    note: str = ""


NEMO_1 = Family(
    name="NeMo 1.21-1.23",
    mark=b"Epoch ",
    line=re.compile(
        rb"Epoch (?P<epoch>\d{1,9}):(?:(?!Epoch \d).)*?\b(?P<number>\d{1,9})(?:/(?:(?P<total>\d{1,9})|\?)|it) \["
    ),
    seconds=re.compile(rb"train_step_timing in s=(?P<value>[^,\]\s]*)"),
    closed=re.compile(rb"[,\]]"),
    key="train_step_timing in s",
    # tqdm prints "{:.3g}", and Lightning pads the result with zeros to five characters: 85.7 becomes 85.70.
    significant=3,
    loss=re.compile(rb"reduced_train_loss=(?P<value>[^,\]\s]+)"),
    samples=re.compile(rb"consumed_samples=(?P<value>[^,\]\s]+)"),
    # In some versions the bar counted micro-batches; this value counts steps, from 0.
    counted=re.compile(rb"global_step=(?P<value>[^,\]\s]+)"),
    clock=re.compile(
        rb"(?:\d|\?|it) \[(?:(?P<hours>\d{1,6}):)?(?P<minutes>\d\d):(?P<seconds>\d\d)[<,]"
    ),
    note=RUNNING_MEAN,
)
NEMO_2 = Family(
    name="NeMo 2.x",
    mark=b"Training epoch ",
    line=re.compile(
        rb"Training epoch (?P<epoch>\d{1,9}), iteration (?P<number>\d{1,9})/(?P<total>\d{1,9})"
    ),
    seconds=re.compile(rb"train_step_timing in s: (?P<value>[^|\s]*)"),
    closed=re.compile(rb" \|| *$"),
    key="train_step_timing in s",
    first=0,
    significant=4,
    loss=re.compile(rb"reduced_train_loss: (?P<value>[^|\s]+)"),
    batch=re.compile(rb"\bglobal_batch_size: (?P<value>[^|\s]+)"),
    samples=re.compile(rb"consumed_samples: (?P<value>[^|\s]+)"),
    tflops=re.compile(rb"TFLOPS_per_GPU: (?P<value>[^|\s]+)"),
    note=RUNNING_MEAN,
)
MEGATRON = Family(
    name="Megatron-LM",
    mark=b"consumed samples:",
    line=re.compile(
        rb"iteration\s{1,20}(?P<number>\d{1,9})/\s{0,20}(?P<total>\d{1,9}) \|\s*consumed samples:"
    ),
    seconds=re.compile(rb"elapsed time per iteration \(ms\):\s*(?P<value>[^|\s]*)"),
    closed=re.compile(rb"\s*\|"),
    key="elapsed time per iteration (ms)",
    scale=1e-3,
    loss=re.compile(rb"lm loss:\s*(?P<value>[^|\s]+)"),
    batch=re.compile(rb"global batch size:\s*(?P<value>[^|\s]+)\s*\|"),
    samples=re.compile(rb"consumed samples:\s*(?P<value>[^|\s]+)"),
    clock=re.compile(rb"\[(?P<stamp>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?)\]"),
    tflops=re.compile(rb"throughput per GPU \(TFLOP/s/GPU\):\s*(?P<value>[^|\s]+)"),
    note=OVER_INTERVAL,
)
BRIDGE = Family(
    name="Megatron-Bridge",
    mark=b"Step Time :",
    line=re.compile(rb"\bStep Time :"),
    seconds=re.compile(rb"\bStep Time :\s*(?P<value>\S*?)(?=s(?:\s|$)|\s|$)"),
    closed=re.compile(rb"s(\s|$)"),
    key="Step Time",
    note="steps are not numbered; the TFLOPS lines belong to no particular step and are not read",
)
DLLOGGER = Family(
    name="NeMo's DLLogger",
    mark=b"DLLL {",
    # A step is a number, or the list of epoch and number. Lists with one item or none are sums of an epoch or of the whole run.
    line=re.compile(
        rb'DLLL \{.{0,400}?"type": "LOG", "step": (?:\[(?P<epoch>\d{1,9}), )?(?P<number>\d{1,9})\]?, "data": \{'
    ),
    seconds=re.compile(rb'"train_step_timing in s": (?P<value>[^,}\s]*)'),
    closed=re.compile(rb"[,}]"),
    key="train_step_timing in s",
    first=0,
    precision=SINGLE,
    loss=re.compile(rb'"reduced_train_loss": (?P<value>[^,}\s]+)'),
    samples=re.compile(rb'"consumed_samples": (?P<value>[^,}\s]+)'),
    clock=re.compile(rb'"timestamp": "(?P<since>\d{1,12}\.\d{1,9})"'),
    note=RUNNING_MEAN,
)
FAMILIES = (DLLOGGER, NEMO_1, NEMO_2, MEGATRON, BRIDGE)
NAN_ITERATIONS = re.compile(rb"number of nan iterations:\s*(?P<value>\d{1,9})")
SKIPPED_ITERATIONS = re.compile(rb"number of skipped iterations:\s*(?P<value>\d{1,9})")
NAN_NORM = re.compile(rb"grad norm:\s*[+-]?(?:nan|inf)", re.IGNORECASE)
