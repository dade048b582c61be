"""Reading: reports as they stand, annotations, uploads."""
