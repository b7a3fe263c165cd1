"""Which images are trained on, selected on and tested on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from hypo.data.imageset import ImageSet
from hypo.suggest import one_of

PROTOCOLS = ("paper", "released")


@dataclass(frozen=True, eq=False)
class Split:
    """Sorted int64 indices into an ImageSet.

    train        what the weights and prototypes are fitted to
    validation   what the epoch and hyperparameters are selected on
    id_test      in-distribution test: of the training domains
    ood_test     out-of-distribution test: of the held-out domain; empty without one
    fingerprint  hex digest of the four and of the ImageSet's content
    protocol     "paper", or "released" for a split that leaks as the released code's does
    """

    train: np.ndarray
    validation: np.ndarray
    id_test: np.ndarray
    ood_test: np.ndarray
    fingerprint: str
    protocol: str


def split(
    images: ImageSet, held_out: str | None, seed: int = 0, fraction: float = 0.1, protocol: str = "paper"
) -> Split:
    """Divide `images` with one domain held out, or with none (`held_out=None`, single-source sets such as CIFAR-10).

    The pool for training and validation is what is neither of the held-out domain nor `test_only`, nor of a group that
    has a `test_only` sample. id_test: the `test_only` samples of the training domains, or the validation samples if
    there are none. ood_test: the `test_only` samples of the held-out domain, or all of it if there are none.

    protocol "paper": `fraction` of the pool (the paper's 10%) is for validation, the rest is for training.
        Without groups it is stratified: each (domain, class) cell gives its share, rounded up or down so that all add
        up to the fraction of the pool. With groups, whole groups are taken in random order, each one that brings
        the count nearer to the fraction, and the smallest if none does. Either way a cell of two or more samples keeps
        at least one for training.
    protocol "released": what the released code does, for measuring its effect only. Training and validation are two
        independent draws from the pool, so that most validation samples are trained on too; with no domain held out,
        training is the whole pool and validation is the test set. The released code sets no seed; here `seed` does.
    """
    one_of("protocol", protocol, PROTOCOLS)
    if not 0 < fraction < 1:
        raise ValueError(f"fraction must be between 0 and 1 (the paper uses 0.1), not {fraction}")
    outside = np.zeros(len(images), bool)
    if held_out is not None:
        one_of("held_out domain", held_out, images.domain_names)
        outside = images.domains == images.domain_names.index(held_out)
    tests = np.zeros(len(images), bool) if images.test_only is None else images.test_only
    reserved = tests if images.groups is None else np.isin(images.groups, images.groups[tests])
    pool = np.flatnonzero(~outside & ~reserved)
    id_test = np.flatnonzero(~outside & tests)
    ood_test = np.flatnonzero(outside & tests if (outside & tests).any() else outside)
    if not len(pool) or (held_out is not None and not len(ood_test)):
        raise ValueError(
            f"holding out {held_out} leaves {len(pool)} images to train on and {len(ood_test)} to test on; "
            f"bring images of at least two domains, or pass held_out=None for a single one"
        )
    if protocol == "paper":
        taken = (
            _stratified(images, pool, fraction, seed)
            if images.groups is None
            else _grouped(images, pool, fraction, seed)
        )
        train, validation = pool[~taken], pool[taken]
    elif held_out is None:
        if not len(id_test):
            raise ValueError(
                'protocol "released" without a held-out domain selects on the test images, but this set has none; '
                'use protocol="paper"'
            )
        train, validation = pool, id_test
    else:
        train, validation = _drawn_twice(pool, fraction, seed)
    parts = train, validation, id_test if len(id_test) else validation, ood_test
    return Split(*parts, fingerprint=_fingerprint(images, parts), protocol=protocol)


def _stratified(images: ImageSet, pool: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """Which of the pool (P,) bool go to validation: shares of the (domain, class) cells by largest remainder."""
    rng = np.random.default_rng(seed)
    cell, sizes = _cells(images, pool)
    spare = sizes - 1
    share = np.minimum(np.floor(fraction * sizes).astype(np.int64), spare)
    wanted = max(1, round(fraction * len(pool))) - share.sum()
    by_remainder = np.lexsort((rng.random(len(sizes)), share - fraction * sizes))
    share[by_remainder[share[by_remainder] < spare[by_remainder]][:wanted]] += 1
    if not share.any():
        raise ValueError(
            "every class has a single image in each domain, so none can be spared for validation; add images"
        )
    shuffled = rng.permutation(len(pool))
    by_cell = shuffled[np.argsort(cell[shuffled], kind="stable")]
    rank = np.arange(len(pool)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    taken = np.zeros(len(pool), bool)
    taken[by_cell] = rank < np.repeat(share, sizes)
    return taken


def _grouped(images: ImageSet, pool: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """Which of the pool (P,) bool go to validation: whole groups."""
    cell, left = _cells(images, pool)
    names, group = np.unique(images.groups[pool], return_inverse=True)
    counts = np.zeros((len(names), len(left)), np.int64)  # (groups, cells)
    np.add.at(counts, (group, cell), 1)
    needed = left > 1
    order = np.random.default_rng(seed).permutation(len(names))
    wanted, chosen = fraction * len(pool), []

    def spared(g: int) -> bool:
        rest = left - counts[g]
        return bool(rest.any() and rest[needed].all())

    for g in order:
        size = counts[g].sum()
        if size < 2 * wanted and spared(g):
            chosen.append(g)
            wanted, left = wanted - size, left - counts[g]
    if not chosen:
        chosen = sorted(filter(spared, order), key=lambda g: counts[g].sum())[:1]
    if not chosen:
        raise ValueError(
            f"none of the {len(names)} groups can be spared for validation without leaving some class of some domain "
            "nothing to train on; bring more groups, or a set without groups"
        )
    return np.isin(group, chosen)


def _drawn_twice(pool: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = (np.random.default_rng(s).permutation(pool) for s in np.random.SeedSequence(seed).spawn(2))
    count = max(1, round(fraction * len(pool)))
    return np.sort(first[count:]), np.sort(second[:count])


def _cells(images: ImageSet, pool: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The (domain, class) cell of each of the pool (P,), numbered without gaps, and the size of each cell."""
    cells = images.domains[pool] * len(images.class_names) + images.labels[pool]
    _, cell, sizes = np.unique(cells, return_inverse=True, return_counts=True)
    return cell, sizes


def _fingerprint(images: ImageSet, parts: tuple[np.ndarray, ...]) -> str:
    digest = hashlib.sha256(repr((images.fingerprint, [len(part) for part in parts])).encode())
    for part in parts:
        digest.update(part.astype("<i8").tobytes())
    return digest.hexdigest()
