"""The engine in one process: threads, and silos that advance together as rows of matrices."""
