"""Holdfast as agents and people meet it: MCP, HTTP and the terminal, over `holdfast_storage`."""

__version__ = "0.1.0"

__all__ = ["__version__"]
