"""GPT-3 training throughput: the acceptance benchmark, from live runs or from recorded logs."""

from appliance.benchmarks.gpt3.recorded import from_logs

__all__ = ["from_logs"]
