"""Whose token a request came with, noted where everybody behind the guard finds it."""

# The guard of the HTTP server sets this in the scope of each request it lets in.
TOKEN_NAME = "holdfast.token"
