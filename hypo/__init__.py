"""hypo: a runnable companion to *HYPO: Hyperspherical Out-of-Distribution Generalization* (ICLR 2024)."""

from hypo.loss import HypoLoss, HypoTerms
from hypo.model import HypoNet
from hypo.sphere import class_means, etf_gap, separation_loss, simplex_etf, update_prototypes, variation_loss

__all__ = [
    "HypoLoss",
    "HypoNet",
    "HypoTerms",
    "class_means",
    "etf_gap",
    "separation_loss",
    "simplex_etf",
    "update_prototypes",
    "variation_loss",
]
