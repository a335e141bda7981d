"""A checkpointer for LangGraph; needs the extra `langgraph`, and nothing else imports it."""

from holdfast_storage.langgraph.saver import HoldfastSaver

__all__ = ["HoldfastSaver"]
