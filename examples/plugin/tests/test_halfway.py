"""The method keeps all of Amity's laws."""

from amity_halfway import Halfway  # type: ignore[import-not-found, unused-ignore]

from amity.testing import check_method


def test_all_laws() -> None:
    report = check_method(Halfway())
    assert len(report.passed) > 25


def test_other_shares() -> None:
    for share in (0.0, 1.0):
        check_method(Halfway(share), laws=["pure", "carriers", "resume", "membership"])
