"""The evidence behind a sealed report: ledger rows, a second computation, and packs (method §11)."""
