"""Training: the loop, engines for several processes, memory and benchmarks."""
