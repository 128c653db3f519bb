"""Single rows from many threads of one process: latency, its tail, and throughput."""
