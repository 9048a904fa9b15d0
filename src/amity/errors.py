"""The one error that users see."""


class InputError(ValueError):
    """Something a user gave cannot be used: one line with the rule, what was received, what to do."""
