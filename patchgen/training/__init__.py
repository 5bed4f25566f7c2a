"""Training a variant, and what it costs: the loop, engines for several processes, memory, benchmarks."""
