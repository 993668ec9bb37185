"""The results of runs: probes of trained memories, groups of runs, tables, curves."""
