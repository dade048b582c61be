"""Tests of the reports: pages, rules, figures."""
