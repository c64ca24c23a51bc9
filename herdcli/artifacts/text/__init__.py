"""Text formats: CSV, JSON lines, svmlight, Stan, and how numbers and encodings are read."""
