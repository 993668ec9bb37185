"""Worlds as array programs: thousands of levels at once, on NumPy and CuPy alike."""
