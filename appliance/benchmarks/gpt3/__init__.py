"""GPT-3 training throughput: the acceptance benchmark, from live runs or from recorded logs."""
