"""The page of `herd eval --report`: its content, its style, and its inline pictures."""
