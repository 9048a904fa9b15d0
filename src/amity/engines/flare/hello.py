"""A first question to the server, with a silo's own certificate, that takes nobody's name: what time is it there, which
version has it, and which services of this silo does it hear of? `check` asks it, and so does a service whose heartbeats
get no answer: `python -m amity.engines.flare.hello SITE` prints the greeting.

The question is FLARE's challenge, with which a silo begins to register; nothing is registered. It is asked by a cell of
its own beside the silo's, so that the service that runs is not disturbed.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from amity.engines.flare.greetings import HEADER
from amity.engines.flare.kits.files import read_json
from amity.engines.flare.kits.places import check_site
from amity.engines.flare.kits.resources import SERVER_IDENTITY
from amity.errors import AmityError, LostWorker
from amity.federation.presence import Beat, Greeting, greeting_of
from amity.site.session import read_session

PATIENCE = 8.0
"""Seconds for an answer."""


class Heard(NamedTuple):
    """The server's answer, and how well its time is known."""

    greeting: Greeting | None  # None: the server's version of Amity does not greet
    skew: float  # the server's clock minus this one's, in seconds
    within: float  # seconds by which that may be wrong


def ask_server(site: Path, beat: Beat | None = None, seconds: float = PATIENCE) -> Heard:
    """Ask the server of a silo's kit; LostWorker where it does not answer. `beat`: of the service that asks."""
    from nvflare.apis.utils.decomposers import flare_decomposers
    from nvflare.fuel.f3.cellnet.cell import Cell
    from nvflare.fuel.f3.cellnet.defs import (
        CellChannel,
        CellChannelTopic,
        IdentityChallengeKey,
        MessageHeaderKey,
        ReturnCode,
    )
    from nvflare.fuel.f3.cellnet.fqcn import FQCN
    from nvflare.fuel.f3.cellnet.utils import new_cell_message

    flare_decomposers.register()
    place = check_site(site)
    table = read_json(place / "kit" / "startup" / "fed_client.json")
    name, service = str(table["client"]["fqsn"]), table["servers"][0]["service"]
    cell = Cell(
        fqcn=FQCN.join([name, f"hello-{uuid.uuid4().hex}"]),
        root_url=f"{service['scheme']}://{service['target']}",
        secure=True,
        credentials=_credentials(place),
        create_internal_listener=False,
        auth_identity=name,
        auth_identity_map={FQCN.ROOT_SERVER: SERVER_IDENTITY},
    )
    try:
        cell.start()
        question = {IdentityChallengeKey.COMMON_NAME: name, IdentityChallengeKey.NONCE: str(uuid.uuid4())}
        said = {} if beat is None else {HEADER: beat._asdict()}
        until = time.monotonic() + seconds
        while True:
            asked, before = time.time(), time.monotonic()
            reply = cell.send_request(
                target=FQCN.ROOT_SERVER,
                channel=CellChannel.SERVER_MAIN,
                topic=CellChannelTopic.Challenge,
                request=new_cell_message({**question, **said}, None),
                timeout=max(0.5, until - before),
                optional=True,
            )
            took = time.monotonic() - before
            code = reply.get_header(MessageHeaderKey.RETURN_CODE)
            if code == ReturnCode.OK:
                greeting = greeting_of(reply.get_header(HEADER))
                skew = 0.0 if greeting is None else greeting.time - (asked + took / 2)
                return Heard(greeting, skew, took / 2)
            if time.monotonic() > until:
                raise LostWorker(f"the server does not answer a question over FLARE ({code})")
            time.sleep(0.2)  # the connection is still being made
    finally:
        cell.stop()


def _credentials(place: Path) -> dict[str, str]:
    from nvflare.fuel.f3.drivers.driver_params import DriverParams

    startup = place / "kit" / "startup"
    return {
        DriverParams.CA_CERT.value: str(startup / "rootCA.pem"),
        DriverParams.CLIENT_CERT.value: str(startup / "client.crt"),
        DriverParams.CLIENT_KEY.value: str(place / "key.pem"),
        DriverParams.CONNECTION_SECURITY.value: "mtls",
    }


def main(site: Path) -> None:
    """Ask for the service of a site, and print what the server says."""
    session = read_session(site)
    beat = None if session is None else Beat(session.mark, time.time(), version("amity"))
    greeting = ask_server(site, beat).greeting
    if greeting is not None:
        print(json.dumps(greeting.table()), flush=True)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except AmityError as error:
        print(f"amity: {error}", file=sys.stderr)
        sys.stderr.flush()
    finally:
        os._exit(0)  # at once: FLARE leaves threads behind
