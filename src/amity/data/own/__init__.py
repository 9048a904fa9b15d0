"""A user's own silos: arrays, tensors and torch data sets, or a folder with one file or folder per silo."""
