"""Numbers for TensorBoard: event files in the run directory, written by TensorBoard's own writer.

A file is begun each time the run is begun or resumed; TensorBoard reads them all, in the order of their names. Options
are in its HPARAMS tab, the configuration in TEXT.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Mapping
from pathlib import Path

from tensorboard.backend.event_processing.event_file_loader import EventFileLoader  # type: ignore[import-untyped]
from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[import-untyped]
from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped]
from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]
from torch.utils.tensorboard import summary as proto

from amity.record.sharing import allow, begin_file, make_folder
from amity.tracking.tracker import Ending, Subject

FOLDER = "tensorboard"
NAMES = "events.out.tfevents.*"


class TensorBoard:
    """Event files of one run."""

    def __init__(self) -> None:
        self._file: io.FileIO | None = None
        self._parameters: Mapping[str, str | float | bool] = {}

    def begin(self, subject: Subject) -> int:
        """Begin a file beside those that are there; those of a run that was replaced are removed."""
        folder = subject.path / FOLDER
        there = sorted(folder.glob(NAMES))
        if subject.anew:
            for file in there:
                file.unlink()
            there = []
        held = max((_last_round(file) for file in there), default=0)
        make_folder(folder)
        file = folder / f"events.out.tfevents.{int(time.time()):010d}.amity.{len(there):04d}"
        begin_file(file)
        allow(file)
        self._file = file.open("ab", buffering=0)
        self._write(Event(file_version="brain.Event:2"))
        self._parameters = subject.parameters
        if not held:
            text = "\n".join(f"    {key} = {value}" for key, value in subject.parameters.items())
            self._write(Event(summary=proto.text("configuration", text)))
        return held

    def add(self, round: int, when: float, values: Mapping[str, float]) -> None:
        """Write the numbers of a round as one event: it is there as a whole, or not at all."""
        scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._write(Event(wall_time=when, step=round, summary=Summary(value=scalars)))

    def end(self, ending: Ending) -> None:
        """Write what the run comes to, beside its options."""
        values = {f"summary/{name}": value for name, value in ending.summary.items()}
        self.add(ending.round, time.time(), values)
        for part in proto.hparams(dict(self._parameters), values):
            self._write(Event(wall_time=time.time(), summary=part))
        if self._file is not None:
            self._file.close()

    def _write(self, event: Event) -> None:
        """Write an event in one go, so that a disk that is full leaves no half of it."""
        assert self._file is not None
        packed = io.BytesIO()
        RecordWriter(packed).write(event.SerializeToString())
        content = packed.getvalue()
        before = os.fstat(self._file.fileno()).st_size
        try:
            if self._file.write(content) != len(content):
                self._file.truncate(before)
                raise OSError(f"only a part of an event could be written to {Path(str(self._file.name)).name}")
        except OSError:
            self._file.close()
            raise


def _last_round(file: Path) -> int:
    """Return the last round in a file; a last event that was cut off does not count."""
    return max((int(event.step) for event in EventFileLoader(str(file)).Load()), default=0)
