"""How fast the program itself is, on a virtual rack; see docs/benchmarks.md."""
