"""File formats: each file turns the bytes of one format into arrays, and refuses what is damaged."""
