"""A federation: two sides, and the messages between them."""
