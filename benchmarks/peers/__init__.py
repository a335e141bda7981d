"""One module for each store that is measured; those of others run in an environment of their own."""
