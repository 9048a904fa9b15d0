"""The meaning of columns, labels and examples that users bring, and remarks on what may be a mistake."""
