"""The virtual rack: container hosts with simulated GPUs and fabric, and faults to try on them."""
