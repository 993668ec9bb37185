"""What runs have left, read again: probes of trained memories, groups of runs, tables
and curves.
"""
