"""The command line: one file per group of commands, `app.py` puts them together."""
