"""What the benchmarks share: figures, tables, machine facts, worker processes, rounds."""
