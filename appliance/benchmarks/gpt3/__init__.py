"""GPT-3 training throughput: the acceptance benchmark, from live runs or from recorded logs."""

from appliance.benchmarks.gpt3.described import Hardware
from appliance.benchmarks.gpt3.recorded import Recording, from_logs, recording

__all__ = ["Hardware", "Recording", "from_logs", "recording"]
