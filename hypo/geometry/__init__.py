"""The geometry that the paper's theory speaks of, measured on embeddings: variation, separation, projections, lemmas.

Symbols of the paper, with the names used here (z, y, domains and prototypes are those of `hypo.sphere`):

    P(phi^e | y)       a cell      (n, d)  embeddings of one class in one domain, each with weight 1 / n
    rho                sinkhorn    the distance between two cells, here the debiased Sinkhorn divergence
    V, I               intra_class_variation, inter_class_separation
    beta in S^{d-1}    directions  (K, d)  unit vectors to project on
    V^sup              projected_supremum, V of the projections on the worst beta with rho = W1
"""

from hypo.geometry.alignment import epsilon_hat, prototype_separation
from hypo.geometry.bound import lemmas
from hypo.geometry.projections import projected_supremum, projected_variation, projected_w1, random_directions
from hypo.geometry.variation import inter_class_distances, inter_class_separation, intra_class_variation, mean_variation
from hypo.sphere import etf_gap

__all__ = [
    "epsilon_hat",
    "etf_gap",
    "inter_class_distances",
    "inter_class_separation",
    "intra_class_variation",
    "lemmas",
    "mean_variation",
    "projected_supremum",
    "projected_variation",
    "projected_w1",
    "prototype_separation",
    "random_directions",
]
