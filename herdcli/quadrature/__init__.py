"""Kernel herding and its conditional-gradient family: few weighted points that represent a distribution.

Source: Bach, Lacoste-Julien & Obozinski (2012); Chen, Welling & Smola (2010).
"""
