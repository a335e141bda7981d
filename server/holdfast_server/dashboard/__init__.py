"""The page: what agents do, and what people do about it, in a browser."""
