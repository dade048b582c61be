"""The ledger through its doors, on a real Postgres."""
