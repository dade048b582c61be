"""What happened: documents, charges, token hours. Append-only."""
