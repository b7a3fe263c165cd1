"""I-Mixup: images are mixed with those of another domain, and labels as the images are."""

import pytest
import torch
import torch.nn.functional as F
from small import DOMAINS, method
from torch import nn

from hypo.algorithms.base import Batch
from hypo.algorithms.i_mixup import mixed_cross_entropy, partners


def test_labels_are_mixed_as_the_images_are():
    random = torch.Generator().manual_seed(0)
    logits, share = (torch.randn(6, 4, generator=random).double(), torch.rand(6, generator=random).double())
    y, other = torch.tensor([0, 1, 2, 3, 0, 1]), torch.tensor([1, 1, 0, 2, 3, 0])
    soft = torch.zeros(6, 4, dtype=torch.float64)
    for i in range(6):
        soft[i, y[i]] += share[i]
        soft[i, other[i]] += 1 - share[i]
    torch.testing.assert_close(mixed_cross_entropy(logits, y, other, share), F.cross_entropy(logits, soft))
    torch.testing.assert_close(mixed_cross_entropy(logits, y, other, torch.ones(6)), F.cross_entropy(logits, y))


@pytest.mark.parametrize("num_domains", [2, 3, 5])
def test_partners_are_of_one_other_domain_and_each_sample_is_one_once(num_domains):
    domains = torch.arange(4 * num_domains) % num_domains
    seen = set()
    for seed in range(20):
        torch.manual_seed(seed)
        partner = partners(domains, num_domains)
        assert sorted(partner.tolist()) == list(range(len(domains)))
        following = [set(domains[partner[domains == e]].tolist()) for e in range(num_domains)]
        assert all(len(others) == 1 and others != {e} for e, others in enumerate(following))
        seen.add(str(following))
    assert len(seen) > 1 or num_domains == 2


def test_the_network_sees_mixtures_in_one_pass():
    algorithm = method("i_mixup", concentration=1.0)
    passes = []
    algorithm.network = nn.Flatten()
    algorithm.network.register_forward_pre_hook(lambda _, inputs: passes.append(inputs[0]))
    algorithm.classifier = nn.Linear(3 * 2 * 2, 5).double()
    random = torch.Generator().manual_seed(0)
    images, y = torch.randn(12, 3, 2, 2, generator=random, dtype=torch.float64), torch.arange(12) % 5
    domains = torch.arange(12) % DOMAINS
    torch.manual_seed(3)
    total = algorithm.losses(Batch(images, y, domains), 0.0)["total"]
    (mixed,) = passes
    expected, shares = 0.0, [set() for _ in range(DOMAINS)]
    for i in range(12):
        fits = []
        for j in range(12):
            direction = images[i] - images[j]
            share = ((mixed[i] - images[j]) * direction).sum() / direction.square().sum().clamp(min=1e-9)
            if domains[j] != domains[i] and torch.allclose(mixed[i], share * images[i] + (1 - share) * images[j]):
                fits.append((j, share))
        ((j, share),) = fits
        assert 0 <= share <= 1
        shares[domains[i]].add(round(share.item(), 6))
        losses = [F.cross_entropy(algorithm.logits(mixed[i].flatten()), y[k]) for k in (i, j)]
        expected += (share * losses[0] + (1 - share) * losses[1]) / 12
    torch.testing.assert_close(total, expected)
    assert all(len(found) == 1 for found in shares) and len(set.union(*shares)) == DOMAINS


def test_a_step_repeats_with_the_seed_of_torch():
    algorithm = method("i_mixup")
    batch = Batch(torch.randn(6, 3, 16, 16, dtype=torch.float64), torch.arange(6) % 5, torch.arange(6) % 3)
    totals = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        totals.append(algorithm.losses(batch, 0.0)["total"].item())
    assert totals[0] == totals[1] != totals[2]
