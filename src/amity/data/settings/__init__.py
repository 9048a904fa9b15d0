"""Settings: the rules by which a data set falls to silos, one file per rule or paper."""
