"""The table of data sets that can be named: Amity's own, and those that other packages bring."""

from __future__ import annotations

from amity.config.plugins import Registry
from amity.data.sets import catalogue, digits, heart, synthetic
from amity.data.sets.entry import SourceEntry
from amity.data.sets.image_sets import build_cifar100, build_cifar100_coarse, build_images

_ALL = (
    SourceEntry(
        name="digits",
        title="Digits",
        description="8x8 handwritten digits, 1,258 train and 539 test; built in (scikit-learn)",
        classes=10,
        shape=(1, 8, 8),
        build=digits.build,
    ),
    SourceEntry(
        name="synthetic",
        title="Synthetic clusters",
        description="20 features, classes that overlap, 6,000 train and 1,500 test; built in",
        classes=10,
        shape=(20,),
        build=synthetic.build,
    ),
    SourceEntry(
        name="mnist",
        title="MNIST",
        description="28x28 handwritten digits, 60,000 train and 10,000 test",
        classes=10,
        shape=(1, 28, 28),
        build=build_images,
        official=catalogue.MNIST,
    ),
    SourceEntry(
        name="fmnist",
        title="Fashion-MNIST",
        description="28x28 photographs of clothes, 60,000 train and 10,000 test",
        classes=10,
        shape=(1, 28, 28),
        build=build_images,
        official=catalogue.FMNIST,
    ),
    SourceEntry(
        name="emnist",
        title="EMNIST by class",
        description="28x28 handwritten digits and letters, 697,932 train and 116,323 test",
        classes=62,
        shape=(1, 28, 28),
        build=build_images,
        official=catalogue.EMNIST,
    ),
    SourceEntry(
        name="cifar10",
        title="CIFAR-10",
        description="32x32 colour photographs, 50,000 train and 10,000 test",
        classes=10,
        shape=(3, 32, 32),
        build=build_images,
        official=catalogue.CIFAR10,
    ),
    SourceEntry(
        name="cifar100",
        title="CIFAR-100",
        description="32x32 colour photographs, fine labels, 50,000 train and 10,000 test",
        classes=100,
        shape=(3, 32, 32),
        build=build_cifar100,
        official=catalogue.CIFAR100,
    ),
    SourceEntry(
        name="cifar100-coarse",
        title="CIFAR-100 by superclass",
        description="the same photographs, coarse labels, 50,000 train and 10,000 test",
        classes=20,
        shape=(3, 32, 32),
        build=build_cifar100_coarse,
        official=catalogue.CIFAR100,
    ),
    SourceEntry(
        name="organamnist",
        title="OrganAMNIST",
        description="28x28 axial slices of abdominal CT, 34,561 train and 17,778 test",
        classes=11,
        shape=(1, 28, 28),
        build=build_images,
        official=catalogue.ORGANAMNIST,
    ),
    SourceEntry(
        name="pathmnist",
        title="PathMNIST",
        description="28x28 colour patches of colorectal tissue, 89,996 train and 7,180 test",
        classes=9,
        shape=(3, 28, 28),
        build=build_images,
        official=catalogue.PATHMNIST,
    ),
    SourceEntry(
        name="heart",
        title="UCI Heart Disease",
        description="patients of four hospitals, 920 in all: four natural silos, no test part of its own",
        classes=2,
        shape=(len(heart.FEATURES),),
        build=heart.build,
        official=catalogue.HEART,
        natural=True,
    ),
)
SOURCES = Registry("amity.datasets", SourceEntry, "data set", {entry.name: entry for entry in _ALL})
"""Every data set by name: Amity's own, then those of other packages."""
