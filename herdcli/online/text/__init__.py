"""Text as examples: parsers, documents, hashed and quadratic features."""
