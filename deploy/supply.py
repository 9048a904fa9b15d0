"""What an installed Amity is made of: a bill of materials (CycloneDX), a page of licences, and a file of hashes.

    python deploy/supply.py sbom.json                  the bill of materials of Amity, with every extra
    python deploy/supply.py --licences PAGE            the page for people, docs/licences.md
    python deploy/supply.py --hashes REPORT.json FILE  the files that pip has found, each by its hash

Packages are followed from Amity's own requirements through the metadata of what is installed, so that the tools of
developers, which the same environment holds, are left out. Nothing is asked of a network.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

NAME, EXTRAS = "amity", ("all",)
LONGEST = 60  # letters of a licence's own name in the table


def needed(name: str, extras: tuple[str, ...], found: dict[str, Distribution], asked: set[tuple[str, str]]) -> None:
    """Collect the distributions that a package with these extras needs here, and itself."""
    try:
        there = distribution(name)
    except PackageNotFoundError:
        return  # a part of another platform, or an extra that is not installed
    found[canonicalize_name(name)] = there
    wanted = [extra for extra in ("", *extras) if (canonicalize_name(name), extra) not in asked]
    asked |= {(canonicalize_name(name), extra) for extra in wanted}
    for requirement in map(Requirement, there.requires or []):
        if any(requirement.marker is None or requirement.marker.evaluate({"extra": extra}) for extra in wanted):
            needed(requirement.name, tuple(sorted(requirement.extras)), found, asked)


def installed() -> dict[str, Distribution]:
    """Amity and all that it needs, by name."""
    found: dict[str, Distribution] = {}
    needed(NAME, EXTRAS, found, set())
    return dict(sorted(found.items()))


def direct(one: Distribution, among: dict[str, Distribution]) -> Iterator[str]:
    """The packages of the bill that a package names itself."""
    names = {canonicalize_name(Requirement(text).name) for text in one.requires or []}
    yield from sorted(names & among.keys())


def licence(one: Distribution) -> str:
    """A package's licence as it states it: an expression, else its classifiers, else its own words."""
    meta = one.metadata
    if expression := meta.get("License-Expression"):
        return str(expression)
    classifiers = [text for text in meta.get_all("Classifier") or [] if text.startswith("License ::")]
    words = {text.rpartition(" :: ")[2] for text in classifiers} - {"OSI Approved"}
    if words:
        return ", ".join(sorted(words))
    own = " ".join(str(meta.get("License") or "").split())
    return own if own and len(own) <= LONGEST else "see its files" if own else "not stated"


def bill(found: dict[str, Distribution]) -> str:
    """The bill of materials as CycloneDX 1.6, JSON."""
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.license import DisjunctiveLicense
    from cyclonedx.output.json import JsonV1Dot6
    from packageurl import PackageURL

    parts = {
        name: Component(
            name=name,
            version=one.version,
            type=ComponentType.APPLICATION if name == NAME else ComponentType.LIBRARY,
            bom_ref=f"{name}=={one.version}",
            purl=PackageURL("pypi", name=name, version=one.version),
            licenses=[DisjunctiveLicense(name=licence(one))],
        )
        for name, one in found.items()
    }
    bom = Bom(components=[part for name, part in parts.items() if name != NAME])
    bom.metadata.component = parts[NAME]
    for name, one in found.items():
        bom.register_dependency(parts[name], [parts[other] for other in direct(one, found)])
    return JsonV1Dot6(bom).output_as_string(indent=1)


def page(found: dict[str, Distribution]) -> str:
    """The page of licences."""
    head = [
        "# Licences of what Amity is built on",
        "",
        "Every package that `pip install 'amity[all]'` brings, as each states it itself. `make sbom` writes",
        "the same as a bill of materials, with versions and who needs whom. This page is made by `make docs`.",
        "",
        "| package | version | licence |",
        "|---|---|---|",
    ]
    rows = [
        f"| {one.metadata['Name']} | {one.version} | {licence(one)} |" for name, one in found.items() if name != NAME
    ]
    return "\n".join([*head, *rows]) + "\n"


def hashed(report: str) -> str:
    """The packages in a report of pip (`--dry-run --report`) as requirements, each with the hash of its file."""
    lines = []
    for one in json.loads(report)["install"]:
        sha256 = one["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
        if sha256:  # Amity itself is a folder, and has none
            meta = one["metadata"]
            lines.append(f"{canonicalize_name(meta['name'])}=={meta['version']} --hash=sha256:{sha256}")
    return "\n".join(sorted(lines)) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path, metavar="FILE", help="the file to write")
    parser.add_argument("--licences", action="store_true", help="write the page of licences, not the bill")
    parser.add_argument("--hashes", type=Path, metavar="REPORT", help="write the hashes of the files in pip's report")
    options = parser.parse_args()
    if options.hashes:
        text = hashed(options.hashes.read_text(encoding="utf-8"))
        options.out.write_text(text, encoding="utf-8")
        print(f"{options.out}: {text.count('--hash')} files; pip install --require-hashes --no-deps -r {options.out}")
        return
    found = installed()
    if NAME not in found:
        sys.exit("Amity is not installed in this environment: run `make setup` first")
    options.out.write_text(page(found) if options.licences else bill(found), encoding="utf-8")
    print(f"{options.out}: {len(found) - 1} packages")


if __name__ == "__main__":
    main()
