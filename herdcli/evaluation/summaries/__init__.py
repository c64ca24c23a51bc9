"""What `herd info` shows of an artifact: tables for people, a module for each family of kinds."""
