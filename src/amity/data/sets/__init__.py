"""Published data sets: their catalogue, how files are fetched, checked and cached, and how each set is built."""
