"""A workspace as a folder: journals and views as files that people can read."""

from holdfast_storage.engines.folder.engine import FolderEngine

__all__ = ["FolderEngine"]
