"""Writing to the ledger: each operation posts facts and never changes one."""
