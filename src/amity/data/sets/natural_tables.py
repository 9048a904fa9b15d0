"""Tables with natural silos: patients of regions, pupils of schools, women of districts, recordings of patients.

Their columns become features as those of a user's own tables do: each silo summarises its training rows, the summaries
agree on a schema (`amity.data.schema`), and no test row changes a mean, a scale or a category.

Only what is known before the label is an input:

    eicu           death in hospital. APACHE's inputs of the first day, age, sex, weight and the like; neither APACHE's
                   own score and prediction, which others made of these, nor death in intensive care and the length of
                   the stay, which tell the label.
    exam           a pupil's score at sixteen. Sex, and the reading test and verbal band at eleven; what is the same for
                   all pupils of a school (its kind, its average) tells a silo nothing, and is left out by the schema.
    contraception  use at the time of the survey. Age, number of living children, town or country.
    parkinsons     the total UPDRS score. The voice and the time since recruitment; not the motor score, which is a part
                   of the total. Age and sex are the same in all rows of a patient, and left out by the schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from amity.contract import Split
from amity.data.division import Division
from amity.data.schema.account import account_of, left_out
from amity.data.schema.agreement import agree
from amity.data.schema.cells import Column, Table, table_of_rows
from amity.data.schema.summary import summarise
from amity.data.sets.entry import SourceEntry
from amity.data.sets.natural_silos import Dealing, dealing, joined
from amity.data.sets.packs import rows, words
from amity.data.source import Source

PARKINSONS_ARRAYS = ("features", "feature_names", "total_updrs", "silo", "silo_names", "is_test")


@dataclass(frozen=True)
class CsvTable:
    """Which columns of a csv file are the silo, the label and the inputs. Its column is_test says what is tested on."""

    silo: str
    label: str
    inputs: tuple[str, ...]
    prefix: str = ""  # of a silo's name, where the column holds numbers
    classes: tuple[tuple[str, str], ...] = ()  # how each class is written, and its name; none: quantities

    def build(self, entry: SourceEntry, arrays: Mapping[str, Tensor], _: Division) -> Source:
        """Return the rows of every silo, as features."""
        found = rows(arrays)
        values = list(dict.fromkeys(row[self.silo] for row in found))
        silo = torch.tensor([values.index(row[self.silo]) for row in found])
        is_test = torch.tensor([row["is_test"] == "1" for row in found])
        written = [value for value, _ in self.classes]
        labels = [row[self.label] for row in found]
        y = torch.tensor([written.index(one) for one in labels] if written else [float(one) for one in labels],
                         dtype=torch.int64 if written else torch.float64)  # fmt: skip
        dealt = dealing(silo, is_test, [f"{self.prefix}{value}" for value in values])
        table = table_of_rows(found, self.inputs, entry.name)
        return _source(entry, table, y, dealt, self.label, [name for _, name in self.classes])


_DAY = "intubated vent dialysis eyes motor verbal meds urine wbc temperature respiratoryrate sodium heartrate meanbp ph"
_BLOOD = "hematocrit creatinine albumin pao2 pco2 bun glucose bilirubin fio2"
_ILL = "aids hepaticfailure lymphoma metastaticcancer leukemia immunosuppression cirrhosis diabetes"
_CARE = "thrombolytics electivesurgery activetx readmit ventday1 oobventday1 oobintubday1 admitdiagnosis"

EICU = CsvTable(
    silo="region",
    label="hospital_expired",
    inputs=(
        *("numbedscategory", "teachingstatus", "unittype", "unitvisitnumber", "unitadmitsource"),
        *("gender", "age", "ethnicity", "admissionheight", "admissionweight"),
        *(f"aps_{name}" for name in f"{_DAY} {_BLOOD}".split()),
        *(f"pred_{name}" for name in f"{_ILL} {_CARE}".split()),
    ),
    classes=(("0", "survived"), ("1", "died")),
)
EXAM = CsvTable(
    silo="school",
    label="normexam",
    inputs=("standLRT", "intake", "sex", "schgend", "schavg", "vr", "type"),
    prefix="school_",
)
CONTRACEPTION = CsvTable(
    silo="district",
    label="use",
    inputs=("livch", "age", "urban"),
    prefix="district_",
    classes=(("N", "no"), ("Y", "yes")),
)


def build_parkinsons(entry: SourceEntry, arrays: Mapping[str, Tensor], _: Division) -> Source:
    """Return the recordings of every patient, as features."""
    numbers = arrays["features"].double().numpy()
    columns = {name: Column(numbers[:, place]) for place, name in enumerate(words(arrays["feature_names"]))}
    y = arrays["total_updrs"].double()
    dealt = dealing(arrays["silo"], arrays["is_test"], words(arrays["silo_names"]))
    return _source(entry, Table(entry.name, columns, y.numpy()), y, dealt, "total_updrs", ())


def _source(entry: SourceEntry, table: Table, y: Tensor, dealt: Dealing, label: str, labels: Sequence[str]) -> Source:
    """Return the rows of the silos as features, by the schema that their training rows agree on."""
    summaries = {silo.name: summarise(_taken(table, rows)) for silo, rows in zip(dealt.silos, dealt.train, strict=True)}
    agreement = agree(label, summaries)
    assert not agreement.conflicts  # the files have a checksum
    schema = agreement.schema
    x = schema.coded(table)
    train, test = (Split(x[rows], y[rows]) for rows in map(joined, (dealt.train, dealt.test)))
    return Source(
        entry.name,
        train,
        test,
        entry.classes,
        silos=dealt.silos,
        labels=tuple(labels),
        notes=(*dealt.notes, *left_out(schema)),
        label=label,
        features=schema.features,
        schema=schema,
        account=tuple(account_of(schema, agreement.missing)),
    )


def _taken(table: Table, rows: Tensor) -> Table:
    chosen = torch.zeros(table.rows, dtype=torch.bool).index_fill(0, rows, True).numpy()
    return table._replace(columns={name: column.take(chosen) for name, column in table.columns.items()})
