"""The page that people look at: templates, styles and scripts as files, and the Python that puts a view into them."""

from amity.report.page.document import asset, assets, linked_page, report_page, write_report_page

__all__ = ["asset", "assets", "linked_page", "report_page", "write_report_page"]
