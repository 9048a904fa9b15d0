"""Engines: whatever carries messages between the two sides of a federation."""
