"""The live page: runs, hubs and silos while they work, read from their folders and never written to.

    folders.py      what a folder is: a run, a comparison, a hub, a silo, or nothing yet
    tail.py         what was added to a file since the last look
    run_folder.py   a run directory, followed round by round
    standing.py     how each silo of a run stands, from events and rounds
    hub_folder.py   a coordinator's folder: boards, and the records beside them
    silo_folder.py  a silo's own folder: messages, its standing, verdicts
    look.py         what a look at a folder gives
    watcher.py      all folders together: what is live now, and the whole view
    guard.py        who may ask: this machine, a token, no strange names
    pages.py        the answers: the page and its files, `/live` and `/view`; follow.js asks for them
    serving.py      the server, in a thread
    beside.py       the same in a process of its own, beside a run that goes on

Nothing here is imported by what runs, and nothing here keeps a state of its own: all that is shown is on disk, so that
the page survives the death of a run, and its resumption, and its own.
"""
