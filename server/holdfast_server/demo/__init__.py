"""The main job end to end: an agent killed in the middle of its work, and resumed."""
