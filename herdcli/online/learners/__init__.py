"""Learners of streams: their updates, how they are chosen, stopped, merged and continued."""
