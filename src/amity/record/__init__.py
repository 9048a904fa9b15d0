"""A run on disk: written round by round, continued after a stop, read by reports.

    config.toml                  what the run was asked to do
    facts.json                   silo names, their groups, the method and model that were resolved
    manifest.json                who holds how much of what, and a hash of the data
    rounds.jsonl                 one line per round
    weights.npz                  collaboration weights, "round_0001" ... [m, m], where the method has them
    models/<silo>.safetensors    personal models
    predictions/<silo>.npz       right or wrong per test example, or a quantity's error, at the best and the last round
    checkpoint/                  all that is needed to continue
    summary.json                 the results; written last

Files are replaced, never rewritten in place: a reader sees the old one or the new one. While a run is under
way its weights are appended to `weights.part`, because an archive cannot be appended to safely, and the directory is
locked against other writers.
"""

from amity.record.directory import check_free, file_names, holds_run
from amity.record.files import replacing
from amity.record.reader import Record, read
from amity.record.summary import evaluated, score_of
from amity.record.writer import Recorder, begun, check_resumable

__all__ = [
    "Record",
    "Recorder",
    "begun",
    "check_free",
    "check_resumable",
    "evaluated",
    "file_names",
    "holds_run",
    "read",
    "replacing",
    "score_of",
]
