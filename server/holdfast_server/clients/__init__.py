"""Registering Holdfast with the programs that agents live in, and listening to their hooks."""
