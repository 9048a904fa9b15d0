"""Whether a silo takes part in a run: the contract is verified, then its policy or an approval by hand decides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from amity.federation.run_contract import Signed, verify

if TYPE_CHECKING:
    from amity.site.config import Site

Policy = Mapping[str, Any]


def policy_of(table: Any) -> Policy:
    return dict(table)


def root_certificate(site: Site) -> bytes:
    return (site.kit / "startup" / "rootCA.pem").read_bytes()


def opened(document: str, root: bytes) -> Signed:
    return verify(document, root, datetime.now(UTC))


def refusal(site: Site, signed: Signed) -> str | None:
    """Why the silo does not take part; None where it does."""
    file = site.state / "approvals" / f"{signed.contract.name}.json"
    if file.exists() and json.loads(file.read_text())["hash"] == signed.contract.hash():
        return None
    return "not approved yet"


class Audit:
    def __init__(self, path: Any) -> None:
        self.path = path

    def add(self, **line: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def audit_of(site: Site) -> Audit:
    return Audit(site.state / "audit.jsonl")
