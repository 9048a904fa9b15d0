"""The catalogue of published data sets: files, addresses, checksums, counts, licences.

Checksums are the publishers' own: CIFAR's and Fashion-MNIST's stand on their pages, MedMNIST's on Zenodo. For MNIST,
EMNIST and Heart Disease the publishers give none; these are the ones that independent libraries agree on. Files inside
EMNIST's and CIFAR's archives have no published checksum: unpacked ones are verified by structure and counts. Four
subsets in npz form are known too, by the checksums that came with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from amity.data.formats import cifar, idx, npz
from amity.data.formats.content import Arrays
from amity.data.sets import heart
from amity.data.sets.entry import Official
from amity.data.sets.files import File, Layout


def _idx(addresses: tuple[str, ...], rows: tuple[tuple[str, str, str], ...]) -> Layout:
    listed = tuple(
        File(
            f"{name}.gz",
            tuple(f"{address}{name}.gz" for address in addresses),
            digest=f"md5:{packed}",
            content=f"md5:{unpacked}",
        )
        for name, packed, unpacked in rows
    )
    return Layout(listed, partial(idx.four, digests=[file.content for file in listed]))


MNIST = Official(
    folders=("mnist", "MNIST/raw"),  # the second is where torchvision puts it
    layouts=(
        _idx(
            ("http://yann.lecun.com/exdb/mnist/", "https://ossci-datasets.s3.amazonaws.com/mnist/"),
            (
                (
                    "train-images-idx3-ubyte",
                    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                    "6bbc9ace898e44ae57da46a324031adb",
                ),
                (
                    "train-labels-idx1-ubyte",
                    "d53e105ee54ea40749a09fcbcd1e9432",
                    "a25bea736e30d166cdddb491f175f624",
                ),
                (
                    "t10k-images-idx3-ubyte",
                    "9fb629c4189551a2d022fa330f9573f3",
                    "2646ac647ad5339dbf082846283269ea",
                ),
                (
                    "t10k-labels-idx1-ubyte",
                    "ec29112dd5afa0611ce80d1b7f02629c",
                    "27ae3e4e09519cfbb04c329615203637",
                ),
            ),
        ),
    ),
    train=60_000,
    test=10_000,
    licence="CC BY-SA 3.0 (as commonly stated)",
)

# The sums of the unpacked content were taken from files whose .gz had the four official sums.
FMNIST = Official(
    folders=("fashion-mnist", "fmnist", "FashionMNIST/raw"),
    layouts=(
        _idx(
            ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
            (
                (
                    "train-images-idx3-ubyte",
                    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                    "f4a8712d7a061bf5bd6d2ca38dc4d50a",
                ),
                (
                    "train-labels-idx1-ubyte",
                    "25c81989df183df01b3e8a0aad5dffbe",
                    "9018921c3c673c538a1fc5bad174d6f9",
                ),
                (
                    "t10k-images-idx3-ubyte",
                    "bef4ecab320f06d8554ea6380940ec79",
                    "8181f5470baa50b63fa0f6fddb340f0a",
                ),
                (
                    "t10k-labels-idx1-ubyte",
                    "bb300cfdad3c16e7a12a480ee83cd310",
                    "15d484375f8d13e6eb1aabb0c3f46965",
                ),
            ),
        ),
    ),
    train=60_000,
    test=10_000,
    licence="MIT",
)

_BYCLASS = tuple(
    f"emnist-byclass-{part}-{kind}-ubyte.gz" for part in ("train", "test") for kind in ("images-idx3", "labels-idx1")
)


def _emnist(paths: Sequence[Path]) -> Arrays:
    return idx.upright(idx.four(paths, [None] * 4))


EMNIST = Official(
    folders=("emnist", "emnist/gzip", "EMNIST/raw", "EMNIST/raw/gzip"),
    layouts=(
        Layout(
            (
                File(
                    "gzip.zip",
                    ("https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",),
                    digest="md5:58c8d27c78d21e728a6bc7b3cc06412e",
                ),
            ),
            lambda paths: idx.upright(idx.zipped(paths[0], _BYCLASS)),
        ),
        Layout(tuple(File(name) for name in _BYCLASS), _emnist),
        Layout(
            (
                File(
                    "emnist_byclass_subset.npz",
                    digest="sha256:95f02eac9f81a594be80d5ab23d7153bcecc6f71c6d2b7298d3f8fe1767f4459",
                ),
            ),
            npz.images,
            subset=True,
            note="emnist is a pack from the official test part, at most 1,250 per class, divided anew",
        ),
    ),
    train=697_932,
    test=116_323,
    licence="public domain (NIST Special Database 19)",
)

CIFAR10 = Official(
    folders=("cifar10", "cifar10/cifar-10-batches-bin", "cifar-10-batches-bin", "."),
    layouts=(
        Layout(
            (
                File(
                    "cifar-10-binary.tar.gz",
                    ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
                    digest="md5:c32a1d4ab5d03f1284b67883e8d87530",
                ),
            ),
            lambda paths: cifar.packed(paths[0], cifar.TEN),
        ),
        Layout(tuple(File(name) for name in cifar.TEN), cifar.loose),
        Layout(
            (
                File(
                    "cifar10_subset.npz",
                    digest="sha256:efb2281e4b3c741d783e9fb1a3cca41981f5b108aeaebfe68cce8b880293aff0",
                ),
            ),
            npz.images,
            subset=True,
        ),
    ),
    train=50_000,
    test=10_000,
    licence="none stated; cite Krizhevsky 2009",
)

CIFAR100 = Official(
    folders=("cifar100", "cifar100/cifar-100-binary", "cifar-100-binary", "."),
    layouts=(
        Layout(
            (
                File(
                    "cifar-100-binary.tar.gz",
                    ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
                    digest="md5:03b5dce01913d631647c71ecec9e9cb8",
                ),
            ),
            lambda paths: cifar.packed(paths[0], cifar.HUNDRED),
        ),
        Layout(tuple(File(name) for name in cifar.HUNDRED), cifar.loose),
        Layout(
            (
                File(
                    "cifar100_subset.npz",
                    digest="sha256:9644b669ed07b05732613fd5a2ddb646f067e689fb76b9a0550dc6d9f7a1fdf0",
                ),
            ),
            npz.images,
            subset=True,
            note="cifar100 is a pack whose division into train and test is not the official one",
        ),
    ),
    train=50_000,
    test=10_000,
    licence="none stated; cite Krizhevsky 2009",
)


def _medmnist(name: str, md5: str, *packs: Layout) -> tuple[Layout, ...]:
    address = f"https://zenodo.org/records/10519652/files/{name}.npz?download=1"
    return Layout((File(f"{name}.npz", (address,), digest=f"md5:{md5}"),), npz.images), *packs


ORGANAMNIST = Official(
    folders=("organamnist", "medmnist", "."),
    layouts=_medmnist(
        "organamnist",
        "68e3f8846a6bd62f0c9bf841c0d9eacc",
        Layout(
            (
                File(
                    "organamnist_subset.npz",
                    digest="sha256:0c19fa2d68f30dec540dac72a5aa654e9f68bc251036e2202876d1aed11e17a7",
                ),
            ),
            npz.images,
            subset=True,
        ),
    ),
    train=34_561,
    test=17_778,
    licence="CC BY 4.0",
)

PATHMNIST = Official(
    folders=("pathmnist", "medmnist", "."),
    layouts=_medmnist("pathmnist", "a8b06965200029087d5bd730944a56c1"),
    train=89_996,
    test=7_180,
    licence="CC BY 4.0",
)

_HEART = {
    "cleveland": "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
    "hungarian": "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796",
    "switzerland": "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314",
    "va": "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f",
}
HEART = Official(
    folders=("heart-disease", "heart"),
    layouts=(
        Layout(
            tuple(
                File(
                    f"processed.{hospital}.data",
                    (
                        "https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/"
                        f"processed.{hospital}.data",
                    ),
                    digest=f"sha256:{_HEART[hospital]}",
                )
                for hospital in heart.HOSPITALS
            ),
            heart.tables,
        ),
    ),
    train=920,
    test=0,
    licence="CC BY 4.0",
)
