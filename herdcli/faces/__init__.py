"""Recognising whose face it is: similarities of probe and gallery images, and how often the most similar ones are wrong.

Source: Teh (2003), sec. 3.5.  The model of pairs that these methods are compared with is in `herdcli.rbm.pairs`.
"""
