"""The description of a run, and the way in which options are declared."""
