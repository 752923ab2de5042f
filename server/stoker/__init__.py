"""Stoker: a llama-server-compatible inference server on Apple MLX."""

__version__ = "0.1.0"
