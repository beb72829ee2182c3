"""The parts of compare.py, one file each."""
