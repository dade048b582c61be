"""What was said: reports, seals and annotations, made from the facts of the ledger."""
