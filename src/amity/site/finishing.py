"""What a silo does by itself after its runs: `python -m amity.site.finishing`, with AMITY_SITE in the environment."""

from __future__ import annotations

import sys

import torch

from amity import logs
from amity.errors import AmityError
from amity.parent_process import end_with_parent
from amity.site.results import finish_due
from amity.site.worker import LOG, site_here


def main() -> None:
    """Train the models alone that are due, and write the verdicts."""
    end_with_parent()
    try:
        site = site_here()
        logs.start("info", str(site.state / LOG))
        torch.set_num_threads(site.threads)
        finish_due(site)
    except AmityError as error:
        sys.exit(f"amity: {error}")


if __name__ == "__main__":
    main()
