"""The house itself: start, stop, crash, settings, layers."""
