"""Writing: closing, approving and sealing reports, annotations, dispositions, uploads."""
