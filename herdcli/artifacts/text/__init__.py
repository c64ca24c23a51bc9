"""Text formats: CSV, JSON lines, svmlight, Stan, and the parsing of numbers and encodings."""
