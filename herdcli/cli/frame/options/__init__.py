"""Options: their declarations, shared groups, help and completion."""
