"""The pictures of `herd eval --plot`, a file for each kind of artifact, and how all of them look."""
