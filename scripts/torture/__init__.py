"""The parts of scripts/torture.py."""
