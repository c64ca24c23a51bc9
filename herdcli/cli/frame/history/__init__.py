"""The history of an artifact: how requests are recorded and run again."""
