"""Data sets, the settings that deal them to silos, and federations of a user's own data."""

from amity.data.own import federation
from amity.data.settings import SETTINGS, deal
from amity.data.silos import Silos
from amity.data.sources import SOURCES, Source, load

__all__ = ["SETTINGS", "SOURCES", "Silos", "Source", "deal", "federation", "load"]
