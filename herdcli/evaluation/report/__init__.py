"""The page of `herd eval --report`: its content, its style, and pictures inside it."""
