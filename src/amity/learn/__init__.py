"""What learning is made of: flat vectors, keyed streams, the task, descent, metrics."""
