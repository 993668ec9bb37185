"""What runs leave behind, read again: probes of trained memories, groups of runs,
tables and curves.
"""
