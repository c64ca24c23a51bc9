"""The run of a command: session, console, dry run, shards, workers."""
