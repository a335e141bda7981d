"""Where journals and views are kept: each engine keeps the promises of `base`."""
