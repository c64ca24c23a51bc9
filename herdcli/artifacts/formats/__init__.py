"""Binary formats of other programs, a file for each."""
