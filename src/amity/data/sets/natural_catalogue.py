"""The catalogue of data sets with natural silos that are read from packs: addresses, checksums, counts, licences.

No publisher offers these packs. Each was made from the published data, as its note says, and is known by its checksum;
the division into train and test is the pack's own: of each silo about 20 % to test.
"""

from __future__ import annotations

from functools import partial

from amity.data.sets import har, natural_tables, packs, writers
from amity.data.sets.entry import Official
from amity.data.sets.files import File, Layout

_UCI = "https://archive.ics.uci.edu/dataset"
_MLMREV = "https://cran.r-project.org/package=mlmRev"
_ANGUITA = (
    "D. Anguita, A. Ghio, L. Oneto, X. Parra, J. L. Reyes-Ortiz: A Public Domain Dataset for Human Activity "
    "Recognition Using Smartphones. ESANN 2013"
)


def _npz(name: str, sha256: str, arrays: tuple[str, ...], note: str, *, subset: bool = False) -> tuple[Layout, ...]:
    decode = partial(packs.arrays, needed=arrays)
    return (Layout((File(name, digest=f"sha256:{sha256}"),), decode, subset=subset, note=note),)


def _csv(name: str, sha256: str, note: str, *, subset: bool = False) -> tuple[Layout, ...]:
    return (Layout((File(name, digest=f"sha256:{sha256}"),), packs.table, subset=subset, note=note),)


HAR = Official(
    folders=("uci-har",),
    layouts=_npz(
        "uci_har_features.npz",
        "9091e82b00c57653bb08fcb4af1488ffcf12278a7d298101b2f7c5c513b4cec7",
        har.FEATURE_ARRAYS,
        "har has 444 features that the makers of the pack computed, not the official 561, and is divided by recording, "
        "within each person, not by person as officially",
    ),
    train=10_299,
    test=0,
    licence="CC BY 4.0 (its README: cite the paper, no commercial use)",
    home=f"{_UCI}/240/human+activity+recognition+using+smartphones",
    cite=_ANGUITA,
)

HAR_SIGNALS = Official(
    folders=("uci-har",),
    layouts=_npz(
        "uci_har_signals.npz",
        "48641eb781f67c29e3497561c4ab0075dff9d92d7b388bb1218ac82bbb485aba",
        har.SIGNAL_ARRAYS,
        "har-signals has six of nine channels (no body_acc), in half precision, and is divided by recording, within "
        "each person, not by person as officially",
    ),
    train=10_299,
    test=0,
    licence=HAR.licence,
    home=HAR.home,
    cite=_ANGUITA,
)

WRITERS = Official(
    folders=("mnist-writers",),
    layouts=_npz(
        "mnist_60_writers.npz",
        "3f90c2aaccf50da5d8a654260ecbe50d22b0cb1610ddecf26d391e69d98afc36",
        writers.ARRAYS,
        "writers is a pack of 60 random writers with 100 digits or more, 30 of each group, from MNIST's training part, "
        "divided anew",
        subset=True,
    ),
    train=60_000,
    test=0,
    licence="BSD (writer numbers: QMNIST); CC BY-SA 3.0 as commonly stated (images: MNIST)",
    home="https://github.com/facebookresearch/qmnist",
    cite="C. Yadav, L. Bottou: Cold Case: The Lost MNIST Digits. NeurIPS 2019",
)

PARKINSONS = Official(
    folders=("parkinsons",),
    layouts=_npz(
        "parkinsons_telemonitoring.npz",
        "5e5495ac3b84ed250ed2326d685391e70d72589d1531d0ce9ed1e4eb049ab7ba",
        natural_tables.PARKINSONS_ARRAYS,
        "the scores of parkinsons were interpolated in time by its authors, so that a patient's own are near a line: "
        "test_time alone tells much",
    ),
    train=5_875,
    test=0,
    licence="CC BY 4.0",
    home=f"{_UCI}/189/parkinsons+telemonitoring",
    cite=(
        "A. Tsanas, M. A. Little, P. E. McSharry, L. O. Ramig: Accurate telemonitoring of Parkinson's disease "
        "progression by non-invasive speech tests. IEEE Transactions on Biomedical Engineering 57, 2010"
    ),
)

EICU = Official(
    folders=("eicu-demo", "eicu"),
    layouts=_csv(
        "eicu_demo_mortality.csv",
        "a5b982771a8a676b14de067aa6a9380839163e1320e068891fac8839875805a0",
        "eicu is a pack of the demo's stays with APACHE variables and a known outcome, 9 % of them deaths: score it by "
        "--metric auroc",
        subset=True,
    ),
    train=2_520,
    test=0,
    licence="ODbL 1.0 (attribution; derived tables stay under it)",
    home="https://physionet.org/content/eicu-crd-demo/2.0/",
    cite=(
        "A. Johnson, T. Pollard, O. Badawi, J. Raffa: eICU Collaborative Research Database Demo 2.0. PhysioNet; "
        "T. Pollard and others: The eICU Collaborative Research Database. Scientific Data 5, 2018"
    ),
)

EXAM = Official(
    folders=("school", "exam"),
    layouts=_csv("exam_london.csv", "2196e0ad14702e51caa8d06ee58ce3358ca0e9fb3e9b73cc78bcd44b905c4779", ""),
    train=4_059,
    test=0,
    licence="GPL 2 or later (R package mlmRev)",
    home=_MLMREV,
    cite=(
        "H. Goldstein, J. Rasbash and others: A multilevel analysis of school examination results. Oxford Review of "
        "Education 19, 1993"
    ),
)

CONTRACEPTION = Official(
    folders=("contraception",),
    layouts=_csv(
        "bangladesh_contraception.csv", "9864fa36416709423830df195e0d12ca2603c0921d22564f46a01588e7e95afc", ""
    ),
    train=1_934,
    test=0,
    licence="GPL 2 or later (R package mlmRev)",
    home=_MLMREV,
    cite="N. M. Huq, J. Cleland: Bangladesh Fertility Survey 1989, Main Report. NIPORT, Dhaka 1990",
)
