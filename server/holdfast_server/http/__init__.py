"""The server over HTTP: who may come in, how often, and what is there besides the tools."""
