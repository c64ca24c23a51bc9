"""Small real data sets that come with herd, each a sealed `dataset` artifact with its source and licence."""
