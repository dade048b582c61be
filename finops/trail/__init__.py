"""Who did what: an append-only, hash-chained log."""
