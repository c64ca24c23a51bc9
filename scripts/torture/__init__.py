"""The parts of scripts/torture/__main__.py."""
