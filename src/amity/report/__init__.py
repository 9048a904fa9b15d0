"""Tables, figures and the HTML report, made from records only."""

from amity.report.html import write_holdings, write_report
from amity.report.table import compare_table, table_width

__all__ = ["compare_table", "table_width", "write_holdings", "write_report"]
