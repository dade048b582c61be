"""Pure parsers: bytes in, records out, one file a source."""
