"""The geometry of recorded runs, with classes and domains by name: variation, bounds, neighbourhoods, prototypes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from hypo import paper, runs
from hypo.geometry import (
    epsilon_hat,
    etf_gap,
    inter_class_separation,
    intra_class_variation,
    lemmas,
    prototype_separation,
)
from hypo.geometry.neighbours import K, hard_negatives, mixing, purity, silhouette
from hypo.report import text
from hypo.report.benchmarks import beside, lines
from hypo.report.table import PAPER, Table
from hypo.runs import Embeddings

APART, ALIKE, MIXED = "classes apart (silhouette)", f"same class among the {K} nearest", "domains mixed within a class"


def stored(run: Any) -> Embeddings:
    """The test samples of a run and their embeddings."""
    found = runs.embeddings(run["path"])
    if found is None:
        raise FileNotFoundError(f"{run['path'].name} was kept without embeddings: run it again with force")
    return found


def samples(run: Any, found: Embeddings) -> pd.DataFrame:
    """`Embeddings.samples` by name: index, class, domain, part, prediction."""
    classes, domains, given = np.array(run["classes"]), np.array(run["domains"]), found.samples
    named = {"class": classes[given["label"]], "domain": domains[given["domain"]]}
    return given[["index"]].assign(**named, part=given["part"], prediction=classes[given["prediction"]])


def located(given: Mapping[str, Any]) -> dict[str, tuple[pd.DataFrame, np.ndarray]]:
    """Method -> run, as method -> `samples` of the run and their embeddings z (N, d)."""
    kept = {name: stored(run) for name, run in given.items()}
    return {name: (samples(given[name], found), found.z) for name, found in kept.items()}


def across(every: pd.DataFrame, measures: Mapping[Hashable, str]) -> pd.DataFrame:
    """A few measures, one row per held-out domain and one column per measure and method.

    every     by held_out and measure, one column per method
    measures  name in `every` -> name in the head of a column
    """
    columns = {
        f"{short}, {method}": every[method].xs(name, level="measure")
        for name, short in measures.items()
        for method in every
    }
    return pd.DataFrame(columns).rename(index=text.words).rename_axis("held out")


# Variation and the bound


def variation(run: Any) -> pd.DataFrame:
    """Sinkhorn divergence between every two training domains for each class: class, pair, sinkhorn, n_a, n_b."""
    z, y, e, _ = stored(run).of("id_test").tensors().values()
    found = intra_class_variation(z, y, e)
    ends = zip(found["domain_a"], found["domain_b"], strict=True)
    pairs = [text.words(f"{run['domains'][a]} – {run['domains'][b]}") for a, b in ends]
    named = found.assign(pair=pairs, **{"class": [run["classes"][c] for c in found["class"]]})
    return named[["class", "pair", "sinkhorn", "marginal_error", "n_a", "n_b"]]


def variation_and_separation(run: Any) -> dict[str, float]:
    """The measures of a run that no choice of colours can change."""
    z, y, e, mu = stored(run).of("id_test").tensors().values()
    found = intra_class_variation(z, y, e)["sinkhorn"]
    separation = inter_class_separation(z, y, e)
    return {
        "variation, mean over classes and pairs": found.mean(),
        "variation V, the largest": found.max(),
        "separation I": separation,
        "V / I": found.max() / separation,
        "mean variation / I": found.mean() / separation,
        "epsilon-hat": epsilon_hat(z, y, mu).item(),
        "distance between prototypes, 1 − cos": prototype_separation(mu).item(),
        "ETF gap": etf_gap(mu).item(),
    }


def sides(run: Any) -> pd.DataFrame:
    """Both sides of every inequality of the appendix on a run's samples, classes and domains by name."""
    found = lemmas(**stored(run).of("id_test").tensors(), temperature=run["temperature"])
    named = {"class": run["classes"], "domain_a": run["domains"], "domain_b": run["domains"]}
    words = {column: ["" if pd.isna(i) else names[i] for i in found[column]] for column, names in named.items()}
    return found.assign(**words)


def tightest(found: pd.DataFrame) -> pd.DataFrame:
    """Of each inequality of `sides` the place where it comes nearest to failing, and how often it holds."""
    groups = found.assign(ratio=found["left"] / found["right"]).groupby(["lemma", "quantity"], sort=False)
    nearest = found.loc[groups["ratio"].idxmax()].reset_index(drop=True)
    held = groups["holds"].agg(["sum", "size"]).reset_index()
    trivial = nearest["right"] >= nearest["at_most"]  # False where nothing is known of the left side
    return nearest.assign(
        holds=[f"{a} of {n}" for a, n in zip(held["sum"], held["size"], strict=True)],
        says=np.where(trivial, "nothing: always true", ""),
    )


def bounds(every: pd.DataFrame) -> pd.DataFrame:
    """The end of the chain, one row per held-out domain: the supremum from both sides, both bounds, and how many
    inequalities hold in every place (lines of proofs aside) and say more than what is always true. Lemma C.1, whose
    two sides are of the same samples here, says nothing of the paper's and is not among the latter.

    every  `sides` of several runs, told apart by a column held_out
    """
    rows = {}
    for domain, found in every.groupby("held_out", sort=False):
        lemma, quantity = found["lemma"], found["quantity"]
        theorem = lemma == "Theorem 6.1"
        whole = found[~lemma.str.contains("proof")].groupby(["lemma", "quantity"])["holds"].all()
        stated = tightest(found[~lemma.str.contains("proof|sharper|C.1") & found["at_most"].notna()])
        rows[text.words(domain)] = {
            "Vˢᵘᵖ, from below": found.loc[theorem & (quantity == "Vˢᵘᵖ, from below"), "left"].max(),
            "from above": found.loc[theorem & (quantity == "Vˢᵘᵖ, from above"), "left"].max(),
            "sharper bound": found.loc[lemma == "Theorem 6.1, sharper", "right"].min(),
            "the paper's bound": found.loc[theorem, "right"].min(),
            "inequalities that hold": f"{whole.sum()} of {len(whole)}",
            "of the paper's that say something": f"{(stated['says'] == '').sum()} of {len(stated)}",
        }
    return pd.DataFrame(rows).T.infer_objects().rename_axis("held out")


def epsilon_table(frame: pd.DataFrame | None = None) -> Table:
    """Table 14: the paper's epsilon-hat of HYPO, and ours over held-out domains and seeds."""
    frame, printed = runs.load(at_defaults=True) if frame is None else frame, paper.table("quan")
    single = runs.values(frame[frame["benchmark"] != "digits"], {}, "epsilon_hat")
    single = single.assign(algorithm="hypo", data="", column=single["benchmark"])
    found = beside(printed, runs.summarise(single, ["algorithm", "scale", "data", "column"]))
    columns = [*dict.fromkeys(found["column"])]
    shown = lines(found, {"hypo": "HYPO"}, columns, decimals=2).rename(columns=paper.NAMES)
    caption = (
        "Table 14: epsilon-hat of HYPO; ours on in-distribution test images, the mean over held-out domains of the "
        "mean over seeds, ± the standard deviation over seeds (n runs)."
        + ("" if len(single) else " None of it was run here.")
    )
    return Table(shown, "table-14", caption, found["origins"], found.drop(columns="settings"), also=(PAPER,))


# Neighbourhoods


def neighbourhoods(frame: pd.DataFrame, z: np.ndarray) -> dict[tuple[str, str], float]:
    """Every measure of neighbourhood, by (measure, samples): of the training domains' test samples, and of all; NaN
    where they are too few.

    frame  of `samples`; z (N, d) their embeddings
    """
    values = {}
    for which, chosen in (("training domains", frame["part"] == "id_test"), ("all domains", frame["part"] != "")):
        some, y, e = z[chosen], frame["class"][chosen].to_numpy(), frame["domain"][chosen].to_numpy()
        values[APART, which] = _or_nan(silhouette, some, y)
        values[ALIKE, which] = _or_nan(purity, some, y)
        values[MIXED, which] = _or_nan(mixing, some, y, e)
    return values


def _or_nan(measure: Callable[..., float], *given: np.ndarray) -> float:
    try:
        return measure(*given)
    except ValueError:
        return float("nan")


def in_words(values: pd.DataFrame) -> str:
    """What `neighbourhoods`, one column per method, says of the paper's two observations on Figure 4."""
    rows = {name: values.xs("all domains", level=1).loc[name] for name in (MIXED, APART)}
    if any(row.isna().any() for row in rows.values()):
        return "This run has too few test images for the paper's two observations: a value that is missing needs more."
    higher = {name: row["HYPO"] > row["ERM"] for name, row in rows.items()}
    said = {name: f"({text.number(row['HYPO'], 2)} against {text.number(row['ERM'], 2)})" for name, row in rows.items()}
    against = values[values["HYPO"] < values["ERM"]]
    rows_against = [
        f"{measure}, {which} ({text.number(row['HYPO'] - row['ERM'], 3, sign=True)})"
        for (measure, which), row in against.iterrows()
    ]
    none = "HYPO is below ERM in no row."
    some = f"HYPO is below ERM in {len(against)} of {len(values)} rows: {text.listed(rows_against)}."
    return (
        f"The domains of a class are mixed {'more' if higher[MIXED] else 'less'} under HYPO than under ERM "
        f"{said[MIXED]}: the paper's first observation {'holds' if higher[MIXED] else 'does not hold'} in this run. "
        f"Its classes lie {'further apart' if higher[APART] else 'closer together'} {said[APART]}: "
        f"the second {'holds' if higher[APART] else 'does not hold'}.\n"
        f"**Against the claim:** {some if len(against) else none}"
    )


def in_how_many(every: pd.DataFrame) -> str:
    """In how many held-out domains HYPO is above ERM, measure by measure.

    every  `neighbourhoods` by held_out, measure and samples, one column per method
    """
    seen = every.xs("all domains", level="samples").dropna()
    if {*seen.index.get_level_values("measure")} != {APART, ALIKE, MIXED}:
        return "These runs have too few test images for the paper's two observations."
    above = (seen["HYPO"] > seen["ERM"]).groupby(level="measure").agg(["sum", "size"])
    said = {name: f"{row['sum']} of {row['size']}" for name, row in above.iterrows()}
    return (
        "With one run of each method for each held-out domain, the domains of a class are mixed more under HYPO than "
        f"under ERM in {said[MIXED]} and the classes lie further apart in {said[APART]}. A larger share of the nearest "
        f"samples is of the same class in {said[ALIKE]}."
    )


def closest_pairs(frame: pd.DataFrame, z: np.ndarray, count: int) -> pd.DataFrame:
    """The `count` closest pairs of different classes in each domain of `samples`, each two classes once.

    Columns: domain, class_a, class_b, index_a, index_b, cosine; nearest first within a domain.
    """
    found = hard_negatives(z, frame["class"].to_numpy(), frame["domain"].to_numpy())
    a, b = frame.reset_index(drop=True), frame.iloc[found["same"]].reset_index(drop=True)
    pairs = pd.DataFrame({"domain": a["domain"], "class_a": a["class"], "class_b": b["class"]})
    pairs = pairs.assign(index_a=a["index"], index_b=b["index"], cosine=found["same_cosine"])
    pairs["classes"] = [tuple(sorted(both)) for both in zip(a["class"], b["class"], strict=True)]
    pairs = pairs.sort_values("cosine", ascending=False, kind="stable").drop_duplicates(["domain", "classes"])
    pairs = pairs.groupby("domain", sort=False).head(count).sort_values("domain", kind="stable")
    return pairs.drop(columns="classes").reset_index(drop=True)


def hard_share(frame: pd.DataFrame, z: np.ndarray) -> pd.DataFrame:
    """By domain, and over all: how often the nearest negative is of the sample's own domain, and the mean cosines."""
    found = hard_negatives(z, frame["class"].to_numpy(), frame["domain"].to_numpy())
    rows = pd.DataFrame(
        {
            "domain": frame["domain"].to_numpy(),
            "nearest is of the same domain (%)": 100.0 * (found["same_cosine"] > found["other_cosine"]),
            "by chance (%)": 100 * found["chance"],
            "cosine to the nearest, same domain": found["same_cosine"],
            "other domains": found["other_cosine"],
        }
    )
    return pd.concat([rows, rows.assign(domain="all")]).groupby("domain", sort=False).mean()


def hard_share_in_words(every: pd.DataFrame) -> str:
    """Whether the nearest sample of another class is of the same domain more often than by chance, and how far it is.

    every  `hard_share` of several runs, by held_out and domain
    """
    share, chance = every["nearest is of the same domain (%)"], every["by chance (%)"]
    whole, own = (share > chance)[every.index.get_level_values("domain") == "all"], share.drop("all", level="domain")
    below = [
        f"{text.words(domain)} with {text.words(held_out)} held out ({text.number(value)}% against "
        f"{text.number(chance[held_out, domain])}%)"
        for (held_out, domain), value in own.items()
        if value <= chance[held_out, domain]
    ]
    missed = f", and not in {text.listed(below)}" if below else ""
    every = every.xs("all", level="domain")
    same, other = every["cosine to the nearest, same domain"], every["other domains"]
    return (
        "Over all training domains the nearest sample of another class comes from the same domain more often than by "
        f"chance in {whole.sum()} of {len(whole)} runs. Domain by domain it does so in "
        f"{len(own) - len(below)} of {len(own)} places{missed}. The nearest sample of the own domain is on "
        f"average further away than the nearest of all other domains in {(same < other).sum()} of {len(same)} runs "
        f"(with {text.words(same.index[0])} held out the cosine is {same.iloc[0]:.2f} against {other.iloc[0]:.2f})."
    )


# Trained prototypes


def trained_prototypes(frame: pd.DataFrame) -> Table:
    """How close the prototypes of runs come to the simplex ETF: gap and separation, means over runs."""
    rows = frame[["benchmark", "scale", "algorithm", "dim", "validation.etf_gap", "validation.separation", "origins"]]
    rows = rows.assign(C=frame["classes"].map(len))
    parts = {
        "gap": ("validation.etf_gap", "mean"),
        "separation": ("validation.separation", "mean"),
        "runs": ("C", "size"),
    }
    shown = rows.groupby(["benchmark", "scale", "algorithm", "C"]).agg(**parts).reset_index()
    shown.insert(6, "ETF's separation", shown["C"] / (shown["C"] - 1))
    shown["benchmark"] = shown["benchmark"].map(text.data)
    shown["algorithm"] = shown["algorithm"].map(paper.method_name)
    caption = "Prototypes of runs at their scale's defaults against the simplex ETF; gap and separation are means."
    return Table(shown, "etf-trained", caption, rows["origins"], rows, decimals=3, labels=3)
