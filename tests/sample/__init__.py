"""The sample organisation: its files, and what the ledger makes of them, against the truth."""
