"""Headroom: a FinOps service for LLM inference: cost per token, and what GPU memory is really used for."""

__version__ = "0.1.0"
