"""Tests of the printed report."""
