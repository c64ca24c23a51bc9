"""The rows that commands read: columns, labels, sequences, networks."""
