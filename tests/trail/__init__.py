"""The trail: a chain that shows every change."""
