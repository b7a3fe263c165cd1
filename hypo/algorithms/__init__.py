"""The methods: one file each, and this registry. `base` has the interface that they share; `adversarial`, `risks` and
`styles` have functions that several use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from hypo.suggest import one_of

if TYPE_CHECKING:
    from hypo.algorithms.base import Algorithm
    from hypo.config import Config

ALGORITHMS: dict[str, str | type[Algorithm]] = {
    "erm": "hypo.algorithms.erm:ERM",
    "hypo": "hypo.algorithms.hypo:HYPO",
    "pcl": "hypo.algorithms.pcl:PCL",
    "coral": "hypo.algorithms.coral:CORAL",
    "dann": "hypo.algorithms.dann:DANN",
    "groupdro": "hypo.algorithms.groupdro:GroupDRO",
    "mmd": "hypo.algorithms.mmd:MMD",
    "irm": "hypo.algorithms.irm:IRM",
    "vrex": "hypo.algorithms.vrex:VREx",
    "eqrm": "hypo.algorithms.eqrm:EQRM",
    "vne": "hypo.algorithms.vne:VNE",
    "i_mixup": "hypo.algorithms.i_mixup:IMixup",
    "rsc": "hypo.algorithms.rsc:RSC",
    "selfreg": "hypo.algorithms.selfreg:SelfReg",
    "cdann": "hypo.algorithms.cdann:CDANN",
    "mldg": "hypo.algorithms.mldg:MLDG",
    "arm": "hypo.algorithms.arm:ARM",
    "mtl": "hypo.algorithms.mtl:MTL",
    "mixstyle": "hypo.algorithms.mixstyle:MixStyle",
    "sagnet": "hypo.algorithms.sagnet:SagNet",
    "sharpdro": "hypo.algorithms.sharpdro:SharpDRO",
}
"""Name -> "module:class", or the class itself; a method of your own is one more entry."""

NOT_TRAINABLE = {
    "gvrt": "needs a text for each image",
    "swad": "is a rule of selection, whose number every run has beside the others",
}
"""What else stands in the paper's tables -> why it is no entry."""


def method(name: str) -> type[Algorithm]:
    """The class of the method `name`; a misspelt one is refused with the nearest."""
    if name in NOT_TRAINABLE and name not in ALGORITHMS:
        raise ValueError(f"{name} cannot be trained: it {NOT_TRAINABLE[name]}; valid are {', '.join(ALGORITHMS)}")
    entry = ALGORITHMS[one_of("algorithm", name, ALGORITHMS)]
    if not isinstance(entry, str):
        return entry
    module, _, attribute = entry.partition(":")
    return getattr(import_module(module), attribute)


def build(config: Config, num_classes: int, num_domains: int) -> Algorithm:
    """The method that `config` names, for this many classes and training domains."""
    return method(config.algorithm)(config, num_classes, num_domains)
