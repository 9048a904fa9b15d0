"""The soak: what is tried at random, phase by phase, and its tally.

    runs        small runs of random options: equal when made again, stopped and resumed, readable, finite, reported
    kills       `amity run` killed with -9 at random moments, many inside a checkpoint's write, and resumed to the end
    damage      every file of run directories damaged in five ways, then resumed, reported, predicted with, exported
                and watched
    options     every option of every command with wrong values: one clear line, exit code 2, nothing written
    files       files of every format and messages, changed at random: read, or refused in one line, in little time
    federation  a real federation on loopback, whose processes are killed round after round

Each phase draws everything from `--seed` and gives back a `Tally`. `make soak` runs all of them and writes
docs/tried.json, from which docs/tried.py makes the page. What fails is in the tally as it is.
"""
