"""The runs that others are compared with."""

ALONE = "separate"
"""The method in which every silo trains alone: what joining is measured by."""

POOLED = "pooled"
"""The method that has all data in one place: the most that joining could bring."""

REFERENCES = (ALONE, POOLED)
"""Methods that are there to compare with: nobody joins anything in them."""

ALONE_FOLDER = "alone"
"""The folder of a run directory that holds the run in which every silo trains alone."""
