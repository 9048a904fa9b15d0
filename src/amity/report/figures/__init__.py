"""The pictures of a report as files: PNG and PDF for papers and slides, CSV for whoever wants the numbers."""

from amity.report.figures.colours import ABSENT, COLOURS, INK, PALE
from amity.report.figures.writing import write_figures

__all__ = ["ABSENT", "COLOURS", "INK", "PALE", "write_figures"]
