import pytest


@pytest.fixture(autouse=True)
def short_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members' keys are as short as is accepted: to find two primes of the usual length takes a fifth of a second.

    That keys have the usual length is tested in `engines/flare/kits/test_kit_certificates.py`.
    """
    monkeypatch.setattr("amity.engines.flare.kits.certificates.BITS", 2048)
