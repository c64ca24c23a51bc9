"""Face recognition: similarities of probe and gallery images, and the errors of ranking the gallery by them.

Source: Teh (2003), sec. 3.5.  The model of pairs that these methods are compared with is in `herdcli.rbm.pairs`.
"""
