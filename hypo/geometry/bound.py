"""The appendix as measured inequalities: left and right side of every lemma on the way to the bound on V^sup."""

from __future__ import annotations

import math

import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

from hypo.contracts import check
from hypo.geometry.alignment import epsilon_hat
from hypo.geometry.cells import domain_pairs, split
from hypo.geometry.projections import projected_supremum
from hypo.sphere import separation_loss

COLUMNS = ["lemma", "quantity", "class", "domain_a", "domain_b", "left", "right", "at_most", "note"]
NONE = (None, None, None)


def lemmas(
    z: Tensor,
    y: Tensor,
    domains: Tensor,
    prototypes: Tensor,
    temperature: float = 0.1,
    delta: float = 0.05,
    seed: int = 0,
) -> pd.DataFrame:
    """Both sides of every inequality of the appendix, `left <= right`, on these samples.

    z (N, d), y (N,), domains (N,), prototypes (C, d)
    temperature  tau of the separation loss (Lemma J.1); the bound's own proof takes tau = 1 and never uses it
    delta        the probability with which the bound may fail
    seed         of the random directions

    The samples stand for the population, with every class in every domain weighing the same, as the proof assumes:

        C E    = number of cells, the classes in the domains that have them
        gamma  = mean over cells of 1 - E mu_y . z, the least for which E mu . z >= 1 - gamma
        eta    = (C E gamma)^{1/3}, the proof's choice
        sup_eta eta^2 P(||z - mu|| >= eta)  is Lemma C.3 for all eta at once

    Returns lemma, quantity, class, domain_a, domain_b (missing where a row is about all of them), left, right, at_most
    (what the quantity never exceeds, whatever the embeddings: a larger right side says nothing), note, holds.
    Not measurable: the Rademacher complexity, a supremum over all networks, taken as 0, the least it can be; and the
    bounds on the OOD error, whose constants and expansion function are left open, so they have no row.
    """
    check(z=z, y=y, domains=domains, prototypes=prototypes, temperature=temperature)
    if not 0 < delta < 1:
        raise ValueError(f"delta must be between 0 and 1, the probability that the bound fails, not {delta}")
    mu, z = (F.normalize(x.detach().double(), dim=1) for x in (prototypes, z))
    cells = split(z, y, domains)
    misaligned = {p: (1 - x @ mu[p[0]]).mean().clamp_min(0).item() for p, x in cells.items()}
    distances = {p: torch.linalg.vector_norm(x - mu[p[0]], dim=1) for p, x in cells.items()}
    projected = projected_supremum(z, y, domains, seed=seed)
    through = [(distances[p].mean() + distances[q].mean()).item() for p, q in domain_pairs(cells)]

    epsilon, gamma = epsilon_hat(z, y, mu).item(), sum(misaligned.values()) / len(cells)
    total = sum(misaligned.values())  # C E gamma
    eta = max(total ** (1 / 3), 1e-12)
    estimation = math.sqrt(2 * math.log(2 / delta) / len(z))
    paper, sharper = 10 * total ** (1 / 3), 2 * math.sqrt(2 * total)
    with_estimation = 10 * (len(cells) * (epsilon + estimation)) ** (1 / 3)

    rows = [("Lemma C.1", "γ − epsilon-hat", *NONE, gamma - epsilon, estimation, 2, _ESTIMATION)]
    for p, left in misaligned.items():
        rows.append(("Lemma C.2", "1 − E μ·z", *p, None, left, total, 2, ""))
    for p, distance in distances.items():
        tail, largest = (distance >= eta).double().mean().item(), _largest_tail(distance)
        variance = distance.var(correction=0).item()
        rows += [
            ("Lemma C.3", "P(‖z − μ‖ ≥ η)", *p, None, tail, 2 * total / eta**2, 1, "η as in the proof of C.4"),
            ("Lemma C.3", _LARGEST_TAIL, *p, None, largest, 2 * total, 4, "all η at once"),
            ("Lemma C.3, its proof", _LARGEST_TAIL, *p, None, largest, variance, 4, _VARIANCE),
        ]
    for w1, via in zip(projected.to_dict("records"), through, strict=True):
        pair = (w1["class"], w1["domain_a"], w1["domain_b"])
        rows += [
            ("Lemma C.4", "W1, best random direction", *pair, w1["random"], paper, 2, ""),
            ("Lemma C.4", "W1, ascended direction", *pair, w1["ascended"], paper, 2, ""),
            ("Lemma C.4, sharper", "W1, ascended direction", *pair, w1["ascended"], via, 2, _SHARPER),
        ]
    supremum = projected["ascended"].max()
    rows += [
        ("Theorem 6.1", "Vˢᵘᵖ, from below", *NONE, supremum, paper, 2, "10 ∛(C E γ); left: by ascent"),
        ("Theorem 6.1", "Vˢᵘᵖ, from above", *NONE, max(through), paper, 2, "left: through the prototypes, any β"),
        ("Theorem 6.1", "Vˢᵘᵖ, with estimation", *NONE, supremum, with_estimation, 2, _WITH_ESTIMATION),
        ("Theorem 6.1, sharper", "Vˢᵘᵖ, from above", *NONE, max(through), sharper, 2, "2 √(2 C E γ)"),
    ]
    rows += _separation(mu, temperature)
    frame = pd.DataFrame(rows, columns=COLUMNS).astype(dict.fromkeys(COLUMNS[2:5], "Int64"))
    return frame.assign(holds=frame["left"] <= frame["right"] + 1e-9)


def _largest_tail(distance: Tensor) -> float:
    """sup_eta eta^2 P(distance >= eta), which is met at one of the (n,) distances."""
    falling = distance.sort(descending=True).values
    share = torch.arange(1, len(falling) + 1).to(falling) / len(falling)
    return (falling.square() * share).amax().item()


def _separation(mu: Tensor, temperature: float) -> list[tuple]:
    """Lemma J.1 and the step before it: -1/(tau(C-1)) <= (||sum mu||^2 / C - 1) / (tau(C-1)) <= L_sep."""
    classes, dim = mu.shape
    loss = separation_loss(mu, temperature).item()
    scale = 1 / (temperature * (classes - 1))
    jensen = (mu.sum(0).square().sum().item() / classes - 1) * scale
    relation, attains = ("≤", "an") if classes <= dim + 1 else (">", "no")
    note = f"C = {classes} {relation} d + 1: {attains} ETF attains it"
    return [
        (
            "Lemma J.1, its proof",
            "Jensen's bound of the separation loss",
            *NONE,
            jensen,
            loss,
            math.nan,
            "equal at equal angles",
        ),
        ("Lemma J.1", "the least separation loss, at the simplex ETF", *NONE, -scale, loss, math.nan, note),
    ]


_LARGEST_TAIL = "sup over η of η² P(‖z − μ‖ ≥ η)"
_ESTIMATION = "right: √(2 ln(2/δ) / N), the Rademacher term taken as 0; left: weighing cells alike or samples alike"
_VARIANCE = "the line Var(‖z − μ‖) / η², for all η; Chebyshev bounds distance from the mean, so it need not hold"
_SHARPER = "not in the paper: move both cells to their prototype, E‖z − μ‖ + E′‖z − μ‖ ≤ 2 √(2 C E γ)"
_WITH_ESTIMATION = "γ = epsilon-hat + √(2 ln(2/δ) / N), the Rademacher term taken as 0"
