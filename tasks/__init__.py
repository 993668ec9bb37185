"""Experiments, one file each: data, network, loss, metrics, presets.

A file dropped in here is a task for `python -m tinyrmc.train`.
"""
