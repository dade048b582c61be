"""Reading the ledger: plain values out, nothing written."""
