"""Looking whether a silo's folder or a hub is ready, before a run: `amity federation check`.

    findings.py    what was found: PASS, WARN, FAIL, or not checked since something before it failed
    silo.py        what is looked at in a silo's folder, in the order of causes
    hub.py         the same for a hub
    kit.py         the files that came from the consortium, keys and who may read them
    dates.py       from when until when certificates are valid
    network.py     the server's name and port
    handshake.py   TLS with both certificates, and whose certificate answers
    machine.py     versions, disk, memory, limits of this account
    limits.py      work that may hang
    child.py       the process that looks at whatever needs torch or FLARE: contract.py, data.py, runs.py, session.py

Nothing here changes anything. Nothing private is told: no key, no example. Whatever may take long has a limit.
"""
