"""Do the tests notice mistakes? `python -m tests.mutate` makes some, and names each that nothing notices."""
