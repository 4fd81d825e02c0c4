"""Reads what ``vllm bench serve --save-result`` wrote; a document that contradicts itself is refused."""

import json
import re

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from appliance.adapters import json_answers
from appliance.benchmarks.serving.figures import Figure

SAME = 0.02
"""Maximum relative difference between a rate and its components; the document's numbers are rounded."""


METRIC = re.compile(r"(?:mean|median|p99)_(ttft|tpot|itl|e2el)_ms")


class OtherOptions(ValueError):
    """The program wrote the file, with options under which it cannot be read; ``fix``: which to take."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(why)
        self.fix = fix


class _Written(BaseModel):
    """The fields that count; there are many more. Times in ms."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    model_id: str = ""
    request_rate: float | str = "inf"
    num_prompts: int | None = Field(default=None, ge=0)
    completed: int = Field(ge=0)
    failed: int | None = Field(default=None, ge=0)
    duration: float = Field(gt=0)
    total_input_tokens: int = Field(ge=0)
    total_output_tokens: int = Field(ge=0)
    output_throughput: float = Field(ge=0)
    median_ttft_ms: float = Field(ge=0)
    p99_ttft_ms: float | None = Field(default=None, ge=0)
    median_tpot_ms: float = Field(ge=0)
    p99_tpot_ms: float | None = Field(default=None, ge=0)
    median_itl_ms: float | None = Field(default=None, ge=0)
    p99_itl_ms: float | None = Field(default=None, ge=0)
    median_e2el_ms: float | None = Field(default=None, ge=0)
    p99_e2el_ms: float | None = Field(default=None, ge=0)


def read(text: str) -> tuple[str, Figure]:
    """The model and the one level of the document. Raises ValueError with one line."""
    # vLLM writes Infinity for "all at once", which is no JSON.
    safe = text.replace('"request_rate": Infinity', '"request_rate": "inf"')
    _require_one(safe)
    found = json_answers.parsed(safe)
    try:
        one = _Written.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "missing" and (metric := METRIC.fullmatch(name)):
            raise OtherOptions(
                f"it has no {name}: vllm bench serve ran without metric {metric[1]}",
                "measure again with --percentile-metrics ttft,tpot,itl,e2el",
            ) from None
        raise ValueError(f"{name}: {first['msg']}") from None
    asked = one.num_prompts if one.num_prompts is not None else one.completed + (one.failed or 0)
    if one.completed > asked or (one.failed is not None and one.completed + one.failed != asked):
        raise ValueError(f"{one.completed} of {asked} requests are completed, {one.failed} failed")
    made = one.total_output_tokens / one.duration
    if abs(made - one.output_throughput) > SAME * max(made, one.output_throughput):
        raise ValueError(
            f"output_throughput is {one.output_throughput:g}, but its tokens and duration give {made:g}"
        )
    _keeps_order(one)
    rate = one.request_rate if isinstance(one.request_rate, float) else None
    if rate is not None and rate <= 0:
        raise ValueError(f"request_rate cannot be {rate:g}")
    return one.model_id, Figure(
        rate=rate,
        asked=asked,
        good=one.completed,
        seconds=one.duration,
        least=one.median_e2el_ms or one.median_ttft_ms,
        tokens=one.total_output_tokens,
        prompt=round(one.total_input_tokens / one.completed) if one.completed else None,
        ttft=_times(one.median_ttft_ms, one.p99_ttft_ms),
        tpot=_times(one.median_tpot_ms, one.p99_tpot_ms),
        itl=_times(one.median_itl_ms, one.p99_itl_ms),
        e2e=_times(one.median_e2el_ms, one.p99_e2el_ms),
        refused={"told by vllm bench serve": asked - one.completed}
        if asked > one.completed
        else {},
    )


def _require_one(text: str) -> None:
    """Reads one document of any kind. Raises OtherOptions if another one follows."""
    try:
        _, end = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return
    if text.lstrip()[end:].lstrip().startswith("{"):
        raise OtherOptions(
            "it contains several documents, as vllm bench serve --append-result writes them",
            "use a file with one run: split it, or measure without --append-result",
        )


def _keeps_order(one: _Written) -> None:
    """A percentile is no less than the median, an answer ends after it began, and neither takes no time. Raises ValueError."""
    pairs = (
        ("p99_ttft_ms", one.p99_ttft_ms, "median_ttft_ms", one.median_ttft_ms),
        ("p99_tpot_ms", one.p99_tpot_ms, "median_tpot_ms", one.median_tpot_ms),
        ("p99_itl_ms", one.p99_itl_ms, "median_itl_ms", one.median_itl_ms),
        ("p99_e2el_ms", one.p99_e2el_ms, "median_e2el_ms", one.median_e2el_ms),
        ("median_e2el_ms", one.median_e2el_ms, "median_ttft_ms", one.median_ttft_ms),
    )
    for high, more, low, less in pairs:
        if more is not None and less is not None and more < less:
            raise ValueError(f"{high} is {more:g}, and {low} {less:g}")
    if one.completed and not one.median_ttft_ms:
        raise ValueError(f"{one.completed} requests are completed, but all took no time")


def _times(median: float | None, high: float | None) -> dict[int, float]:
    return {share: ms for share, ms in ((50, median), (99, high)) if ms is not None}
