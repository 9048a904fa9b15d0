"""A run on disk: written round by round, continued after a stop, read by reports.

    config.toml                  the options of the run
    facts.json                   silo names, their groups, the method and model that were resolved
    manifest.json                how much of what each silo holds, and a hash of the data
    rounds.jsonl                 one line per round
    events.jsonl                 one line per event, in the order in which they happened
    weights.npz                  collaboration weights, "round_0001" ... [m, m], where the method has them
    models/<silo>.safetensors    personal models
    models/<silo>.json           what each takes and gives: shape, columns, classes, scale
    models/<silo>.md             its card, for people; made from all the rest
    clouds/<silo>.safetensors    the cloud models that silos were sent, where the method has such
    predictions/<silo>.npz       right or wrong (or the error) per test example: as delivered, and in the last round;
                                 of the delivered model the probability of every class (or the quantity), and the truth
    checkpoint/                  all that is needed to continue
    checkpoint.old/              the one before, while a run is under way
    summary.json                 the results
    checksums.json               of all files; written last: see checksums.py

Runs that differ in their seed alone lie side by side in `seed-0`, `seed-1`, ..., with `results.json` above them: mean
and deviation of every method's numbers.

The contents of every JSON file are typed in contents.py. Files are replaced, never rewritten in place: a reader sees
the old one or the new one. Lines of rounds and events are appended. While a run is under way its weights are appended
to `weights.part`, because an archive cannot be appended to safely, and the directory is locked against other writers.
"""

from amity.record.contents import Facts, Line, Manifest, MethodResults, ModelFacts, Results, Summary
from amity.record.directory import check_free, file_names, holds_run
from amity.record.files import replacing
from amity.record.reader import Record, own_config, read
from amity.record.results import over_seeds, write_results
from amity.record.resuming import begun, check_resumable, go_back
from amity.record.sharing import make_folder
from amity.record.stale import refuse_stale_alone, remove_stale_alone
from amity.record.summary import delivered, evaluated, in_words, metric_of, score_of, scores_of
from amity.record.writer import Recorder

__all__ = [
    "Facts",
    "Line",
    "Manifest",
    "MethodResults",
    "ModelFacts",
    "Record",
    "Recorder",
    "Results",
    "Summary",
    "begun",
    "check_free",
    "check_resumable",
    "delivered",
    "evaluated",
    "file_names",
    "go_back",
    "holds_run",
    "in_words",
    "make_folder",
    "metric_of",
    "over_seeds",
    "own_config",
    "read",
    "refuse_stale_alone",
    "remove_stale_alone",
    "replacing",
    "score_of",
    "scores_of",
    "write_results",
]
