"""Generalised linear models by damped iterated reweighting, over fixed blocks of rows."""
