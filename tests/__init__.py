"""Tests, one folder per layer; real PostgreSQL, Valkey and files, nothing of ours replaced."""
