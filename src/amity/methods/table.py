"""The table of Amity's own methods; the order is that of every list."""

from __future__ import annotations

from amity.methods.accord import Accord
from amity.methods.apfl import APFL
from amity.methods.apple import Apple
from amity.methods.ditto import Ditto
from amity.methods.entry import Entry
from amity.methods.fedacs import FedACS
from amity.methods.fedala import FedALA
from amity.methods.fedamp import FedAMP
from amity.methods.fedavg import FedAvg
from amity.methods.fedbabu import FedBABU
from amity.methods.fedbn import FedBN
from amity.methods.fedfomo import FedFomo
from amity.methods.fedprox import FedProx
from amity.methods.fedrep import FedRep
from amity.methods.heurfedamp import HeurFedAMP
from amity.methods.ifca import IFCA
from amity.methods.l2gd import L2GD
from amity.methods.mr_mtl import MRMTL
from amity.methods.perfedavg import PerFedAvg
from amity.methods.pfedatt import PFedAtt
from amity.methods.pfedgraph import PFedGraph
from amity.methods.pfedme import PFedMe
from amity.methods.pooled import Pooled
from amity.methods.psgd import PSGD
from amity.methods.psgd_objectives import Mixed, Mixture, Moreau, Pair, Residual, Share
from amity.methods.scaffold import Scaffold
from amity.methods.separate import Separate
from amity.methods.twin import Twin
from amity.methods.vrlsgd import VRLSGD
from amity.methods.wrappers import FineTuned, LocalCopy

_FEDAMP = "Huang et al., AAAI 2021"
_PFEDATT = "Ma et al., ACML 2021"
_GENERAL = f"{_PFEDATT}, section 3"
_MCMAHAN = "McMahan et al., AISTATS 2017"
_PROX = "Li et al., MLSys 2020"
_WANG = "Wang et al., 2019"
_GLOBAL = "the global model"
_TUNED = "the global model, fine-tuned"
_TWO_GRADIENTS = "two gradients per step"
_INNER_STEPS = "`inner_steps` gradients per batch"

BUILT_IN: dict[str, Entry] = {
    "pooled": Entry(
        "one model on all data together, in a simulation only", "-", Pooled, down="-", up="-", evaluated=_GLOBAL
    ),
    "separate": Entry("every silo trains alone", "-", Separate, down="0", up="0"),
    "fedavg": Entry("one global model by averaging", _MCMAHAN, FedAvg, evaluated=_GLOBAL),
    "fedavg-local": Entry("FedAvg, each silo keeps its trained copy", _MCMAHAN, FedAvg, LocalCopy),
    "fedavg-ft": Entry(
        "FedAvg, fine-tuned at each silo", _WANG, FedAvg, FineTuned, evaluated=_TUNED, for_evaluation="training"
    ),
    "fedprox": Entry("FedAvg with a pull towards the global model", _PROX, FedProx, evaluated=_GLOBAL),
    "fedprox-ft": Entry(
        "FedProx, fine-tuned at each silo", _WANG, FedProx, FineTuned, evaluated=_TUNED, for_evaluation="training"
    ),
    "scaffold": Entry(
        "one global model, drift taken out by control variates",
        "Karimireddy et al., ICML 2020",
        Scaffold,
        down="2d",
        up="2d",
        evaluated="its trained copy",
    ),
    "vrlsgd": Entry(
        "local SGD with variance reduction",
        "Liang et al., 2019",
        VRLSGD,
        down="d; 2d when a silo is back that missed a round",
        up="d + 1",
        evaluated="its trained copy",
    ),
    "apfl": Entry(
        "a mixture of a local model and the global one",
        "Deng et al., 2020",
        APFL,
        evaluated="its mixture of local and global model",
        each_round=_TWO_GRADIENTS,
    ),
    "ditto": Entry("personal models held near a global one", "Li et al., ICML 2021", Ditto, each_round="two trainings"),
    "mr-mtl": Entry(
        "personal models drawn to their mean",
        "Liu et al., NeurIPS 2022",
        MRMTL,
        down="d, buffers apart",
        up="d, buffers apart",
    ),
    "fedbn": Entry(
        "FedAvg with BatchNorm layers that stay local",
        "Li et al., ICLR 2021",
        FedBN,
        down="d0, all but BatchNorm",
        up="d0",
        evaluated="the shared layers with its own BatchNorm",
    ),
    "fedrep": Entry(
        "a shared body and a head of each silo, trained in turn",
        "Collins et al., ICML 2021",
        FedRep,
        down="d0, the body",
        up="d0",
        evaluated="the shared body with its own head",
        each_round="one training of the head, one epoch of the body",
    ),
    "fedbabu": Entry(
        "a shared body under a head that waits, fine-tuned at each silo",
        "Oh et al., ICLR 2022",
        FedBABU,
        up="d0, the body",
        evaluated=_TUNED,
        for_evaluation="training",
    ),
    "pfedme": Entry(
        "proximal points of a global model of envelopes", "Dinh et al., NeurIPS 2020", PFedMe, each_round=_INNER_STEPS
    ),
    "perfedavg": Entry(
        "a global model that one local step personalises",
        "Fallah et al., NeurIPS 2020",
        PerFedAvg,
        evaluated="the global model, after one step",
        for_evaluation="step",
        each_round="two gradients per step, or four (HF)",
    ),
    "fedfomo": Entry(
        "models weighed by their gain on validation data",
        "Zhang et al., ICLR 2021",
        FedFomo,
        down="M d + M indices",
        up="d + M indices + M + 1 scores",
        hands_on=True,
    ),
    "fedala": Entry(
        "the global model mixed into the own, number by number, by learnt weights",
        "Zhang et al., AAAI 2023",
        FedALA,
        each_round="one training, after a pass for its weights",
    ),
    "ifca": Entry(
        "one model for each of k clusters, chosen by their loss",
        "Ghosh et al., NeurIPS 2020",
        IFCA,
        down="k d",
        up="d + 1",
        hands_on=True,  # a cluster may be one silo
        evaluated="the model of its cluster",
    ),
    "fedamp": Entry("attention by distance between models", _FEDAMP, FedAMP),
    "heurfedamp": Entry("attention by cosine between models", _FEDAMP, HeurFedAMP),
    "pfedatt": Entry("attention to the k most similar silos", _PFEDATT, PFedAtt),
    "fedacs": Entry("averaging above a quantile of cosines", "Chen et al., ICASSP 2024", FedACS),
    "pfedgraph": Entry(
        "a collaboration graph by cosines of updates, near the silos' sizes", "Ye et al., ICML 2023", PFedGraph
    ),
    "accord": Entry(
        "a common model with momentum, a personal one beside it, and each silo goes on from the better",
        "Amity",
        Accord,
        evaluated="the better of its own and the common model",
        each_round="two trainings",
    ),
    "twin": Entry(
        "not recommended, harms on natural silos: attention by cosine from the mean model",
        "Amity",
        Twin,
        evaluated="the better of its own and its cloud model",
    ),
    "apple": Entry(
        "learnt, signed weights over all silos' core models",
        "Luo and Wu, IJCAI 2022",
        Apple,
        down="M d, from round 2 on",
        up="d + M indices",
        hands_on=True,
        evaluated="its mixture of cores",
    ),
    "l2gd": Entry(
        "personal models near their mean, by coins for local and averaging steps",
        "Hanzely and Richtarik, 2020",
        L2GD,
        each_round="a random number of steps",
        down="d + 2, buffers apart; from round 2 on",
        up="d, buffers apart",
    ),
    "psgd-share": Entry(
        "some layers shared, the others local (FedPer, LG-FedAvg)",
        _GENERAL,
        Share,
        PSGD,
        down="d0, the shared layers",
        up="d0",
        evaluated="its copy of the shared layers with its own",
    ),
    "psgd-residual": Entry(
        "a shared model plus a personal correction",
        _GENERAL,
        Residual,
        PSGD,
        down="d, buffers apart",
        up="d, buffers apart",
        evaluated="its copy of the shared model plus its correction",
    ),
    "psgd-mixture": Entry(
        "personal models pulled towards a shared one, which follows them",
        _GENERAL,
        Mixture,
        PSGD,
        down="d, buffers apart",
        up="d, buffers apart",
    ),
    "psgd-moreau": Entry(
        "a shared model of Moreau envelopes",
        _GENERAL,
        Moreau,
        PSGD,
        each_round=_INNER_STEPS,
        down="d, buffers apart",
        up="d, buffers apart",
    ),
    "psgd-apfl": Entry(
        "a shared model, and a mixture of it with a personal one",
        _GENERAL,
        Mixed,
        PSGD,
        each_round=_TWO_GRADIENTS,
        evaluated="its mixture",
    ),
    "psgd-mtl": Entry(
        "a shared model, and a personal one pulled towards it", _GENERAL, Pair, PSGD, each_round=_TWO_GRADIENTS
    ),
}
