"""Forty-one further shifts of public tables: the errors of the estimator, and how well the prior fits.

    python -m benchmarks.real.further --data DIR [--shift NAME]... [--splits 8] [--output FILE]

A few of these tables were looked at when the prior's tails and the weight of a constant column were chosen; most had no
part in any choice. DIR has the tables of Rdatasets as CSV, a folder for each package
(``csv`` in a clone of https://github.com/vincentarelbundock/Rdatasets). Bounds of a column are round numbers around
what one in two hundred of both sides is below and above, as somebody who knows the column would give them; columns with
many texts are left out. ``TransferClassifier`` runs with its defaults, a quarter of T judges it and answers nothing.
The last lines say how far the log odds of T are from those of S, at the middle score of a logistic regression that
learned from one half of S, and of which scale Student's t distribution with three degrees of freedom fits that best.
A few minutes.
"""

from __future__ import annotations

import argparse
import math
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np
import polars
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from benchmarks.figures.store import origin
from benchmarks.real.methods import logistic
from common.data.loading import encode
from common.data.tables import TableSource
from common.local.hypotheses.rules import Constant
from common.local.records import Records
from common.statistics.calibration import FREEDOM
from tandem import TransferClassifier

RESULT = Path(__file__).parent.parent / "results" / "further.md"
FEW = 1_500
"""Agents from which on the summary counts shifts apart."""


@dataclass(frozen=True)
class Further:
    """A shift of a table: conditions, in SQL, say who has the label and who is of S; the others are of T.

    Attributes:
        without: Columns that are left out: they say the label, or the side, or nothing.
        target: Who is of T, where others are of neither side.
    """

    name: str
    table: str
    label: str
    source: str
    without: str = ""
    target: str | None = None


SHIFTS = (
    Further("attrition", "modeldata/attrition", "Attrition = 'Yes'", "Department = 'Research_Development'", "JobRole"),
    Further("bad debts", "modeldata/credit_data", "Status = 'bad'", "Age > 40"),
    Further(
        "churn", "modeldata/wa_churn", "churn = 'Yes'", "payment_method = 'Credit card (automatic)'", "total_charges"
    ),
    Further("remote work", "modeldata/stackoverflow", "Remote = 'Remote'", "Country = 'United States'"),
    Further("bad loans", "modeldata/lending_club", "Class = 'bad'", "term = 'term_60'", "addr_state sub_grade"),
    Further(
        "employment",
        "openintro/acs12",
        "employment = 'employed'",
        "gender = 'male'",
        "hrs_work income time_to_work",
    ),
    Further("spam", "openintro/email", "spam = 1", "format = 0", "time"),
    Further("smokers, UK", "openintro/smoking", "smoke = 'Yes'", "age > 50", "amt_weekends amt_weekdays type"),
    Further("low birth weight", "openintro/ncbirths", "lowbirthweight = 'low'", "habit = 'nonsmoker'", "weight"),
    Further(
        "votes 2016",
        "stevedata/TV16",
        "votetrump = 1",
        "state IN ('California', 'New York', 'Massachusetts', 'Illinois')",
        "uid",
    ),
    Further(
        "abortion, any",
        "stevedata/gss_abortion",
        "abany = 1",
        "year > 2005",
        "id abdefect abnomore abhlth abpoor abrape absingle hispaniccat hispanic",
        "year <= 1985",
    ),
    Further("doctor, Germany", "COUNT/rwm5yr", "docvis > 0", "female = 0", "id hospvis"),
    Further("hospital deaths", "COUNT/medpar", "died = 1", "white = 1", "provnum"),
    Further("light chains", "survival/flchain", "death = 1", "sex = 'F'", "chapter futime"),
    Further("Wilms' tumour", "survival/nwtco", "rel = 1", "study = 3", "seqno edrel"),
    Further("jobs and alcohol", "wooldridge/alcohol", "employ = 1", "white = 1", "inwf status"),
    Further("contraception, Botswana", "wooldridge/fertil2", "usemeth = 1", "urban = 1", "knowmeth"),
    Further("pension plans", "wooldridge/k401ksubs", "e401k = 1", "marr = 1", "p401k"),
    Further("recidivism", "wooldridge/recid", "cens = 0", "black = 0", "durat ldurat follow"),
    Further("arrests 1986", "wooldridge/crime1", "narr86 > 0", "black = 0", "nfarr86 nparr86"),
    Further("mothers at work", "wooldridge/labsup", "worked = 1", "black = 1", "weeks hours labinc nonmomi"),
    Further("no insurance", "AER/HealthInsurance", "insurance = 'no'", "ethnicity = 'cauc'"),
    Further("smokers, US", "AER/SmokeBan", "smoker = 'yes'", "age > 45"),
    Further("no private insurance", "AER/NMES1988", "insurance = 'no'", "region = 'midwest'"),
    Further("doctor, Australia", "AER/DoctorVisits", "visits > 0", "age > 0.4"),
    Further("wages 1988", "AER/CPS1988", "wage > 600", "region = 'northeast'", "", "region = 'south'"),
    Further("mortgages denied", "AER/HMDA", "deny = 'yes'", "afam = 'no'"),
    Further("labour, Switzerland", "AER/SwissLabor", "participation = 'yes'", "foreign = 'no'"),
    Further("not released", "carData/Arrests", "released = 'No'", "colour = 'White'"),
    Further("wages, Canada", "carData/SLID", "wages > 15", "language = 'English'"),
    Further("Conservatives", "carData/BEPS", "vote = 'Conservative'", '"political.knowledge" > 1'),
    Further("plebiscite", "carData/Chile", "vote = 'Y'", "region = 'SA'"),
    Further("contraception, Bangladesh", "mlmRev/Contraception", "use = 'Y'", "urban = 'Y'", "woman district"),
    Further("heart attacks", "DAAG/monica", "outcome = 'dead'", "sex = 'm'"),
    Further("wages, US", "ISLR/Wage", "wage > 110", "jobclass = '2. Information'", "logwage region"),
    Further("orange juice", "ISLR/OJ", "Purchase = 'MM'", "StoreID = 7", "Store7 STORE"),
    Further("Titanic, classes", "carData/TitanicSurvival", "survived = 'yes'", "passengerClass IN ('1st', '2nd')"),
    Further("Titanic, women to men", "carData/TitanicSurvival", "survived = 'yes'", "sex = 'female'"),
    Further("wells", "carData/Wells", "switch = 'yes'", "distance > 50"),
    Further("affairs", "AER/Affairs", "affairs > 0", "gender = 'male'"),
    Further("drinking drivers", "Stat2Data/YouthRisk2007", '"ride.alc.driver" = 1', "age4 > 16", "grade"),
)
MOST = 6_000
"""People of S, at most."""
TEXTS = 25
"""A column with more texts is left out."""


class Both(NamedTuple):
    """The rows of both sides, and how they become features and a label."""

    source: polars.DataFrame
    target: polars.DataFrame
    table: dict[str, Any]


@cache
def load(shift: Further, data: Path) -> Both:
    """Return the people of both sides: rows with a label, without the columns that say it or the side."""
    frame = polars.read_csv(data / f"{shift.table}.csv", null_values=["NA", ""], infer_schema_length=None)
    label = frame.select(polars.sql_expr(shift.label)).to_series()
    here = frame.select(polars.sql_expr(shift.source)).to_series()
    there = ~here if shift.target is None else frame.select(polars.sql_expr(shift.target)).to_series()
    said = " ".join((shift.label, shift.source, shift.without, "rownames")).replace('"', "").split()
    kept = [name for name in frame.columns if name not in said]
    rows = frame.with_columns(label.cast(polars.Int8).cast(polars.Utf8).alias("labelled")).filter(label.is_not_null())
    masks = [side.filter(label.is_not_null()).fill_null(value=False) for side in (here, there)]
    people = rows.filter(masks[0] | masks[1])
    features, columns = [], []
    for name in kept:
        if people[name].dtype.is_numeric():
            low, high = _bounds(people[name])
            columns.append(polars.col(name).cast(polars.Float64))
            features.append({"kind": "number", "column": name, "low": low, "high": high})
        elif len(values := sorted(people[name].cast(polars.Utf8).drop_nulls().unique())) <= TEXTS:
            columns.append(polars.col(name).cast(polars.Utf8).fill_null(""))
            features.append({"kind": "category", "column": name, "values": [value for value in values if value]})
    table = {"features": features, "label": {"column": "labelled", "positive": ["1"], "negative": ["0"]}}
    source, target = (rows.filter(mask).select(*columns, "labelled") for mask in masks)
    return Both(source, target, table)


def _bounds(column: polars.Series) -> tuple[float, float]:
    low, high = (float(column.quantile(share) or 0.0) for share in (0.005, 0.995))
    if column.n_unique() <= 3 or low == high:  # of numbers of which there are two, or one and "not known"
        low, high = float(column.min() or 0.0), float(column.max() or 0.0)  # type: ignore[arg-type]
        return (low, high) if low < high else (low, low + 1.0)
    unit = 10.0 ** math.floor(math.log10(high - low) - 0.3)
    return math.floor(low / unit) * unit, math.ceil(high / unit) * unit


class Found(NamedTuple):
    """What one split gave: errors of the better constant, of S and T in the clear, of the answer; odds and AUC."""

    constant: float
    source: float
    target: float
    answer: float
    log_loss: float
    base: float
    auc: float


def measured(both: Both, seed: int) -> tuple[tuple[int, int], Found]:
    """Return n and N of a split, and what it gave."""
    generator = np.random.default_rng(seed)
    order, others = (generator.permutation(len(side)) for side in both[:2])
    judging = len(others) // 4
    volunteers, judges, agents = both.source[order[:MOST]], both.target[others[:judging]], both.target[others[judging:]]
    model = TransferClassifier(schema=both.table, random_state=seed).fit(volunteers, population=agents)
    here, there, truth = (records(side, both.table) for side in (volunteers, agents, judges))
    positive = truth.labels > 0
    odds = model.predict_proba(judges)[:, 1]
    share = float(positive.mean())
    constants = [float(Constant(label=label).mistakes(truth).mean()) for label in (-1, 1)]
    source, target = (float(logistic(side).mistakes(truth).mean()) for side in (here, there))
    wrong = float((model.predict(judges).astype(str) != np.where(positive, "1", "0")).mean())
    loss = -float(np.log(np.where(positive, odds, 1.0 - odds)).mean())
    base = -share * math.log(share) - (1.0 - share) * math.log(1.0 - share)
    return (len(volunteers), len(agents)), Found(
        min(constants), source, target, wrong, loss, base, float(roc_auc_score(positive, odds))
    )


def records(rows: polars.DataFrame, table: dict[str, Any]) -> Records:
    """Return the rows as records."""
    labels = np.where(rows["labelled"].to_numpy() == "1", np.int8(1), np.int8(-1))
    return Records(encode(rows, TableSource.model_validate({"files": ["none"], **table})), labels).check()


def odds_apart(both: Both) -> tuple[float, float]:
    """Return by how much ln(odds) at S's middle score and ln(slope) are greater on T, in the clear.

    The score is that of a logistic regression on one half of S; slopes and odds are those of the other half and of T.
    """
    here, there = (records(side, both.table) for side in both[:2])
    order = np.random.default_rng(0).permutation(len(here))
    half = len(order) // 2
    model, rest = logistic(here.take(order[:half])), here.take(order[half:])
    middle, lines = float(np.median(model.margins(rest.features))), []
    for people in (rest, there):
        fitted = LogisticRegression(C=1e4).fit(model.margins(people.features)[:, None], people.labels)
        slope = float(fitted.coef_[0, 0])
        lines.append((slope * middle + float(fitted.intercept_[0]), math.log(max(slope, 0.02))))
    return lines[1][0] - lines[0][0], lines[1][1] - lines[0][1]


def scale_of(distances: list[float]) -> float:
    """Return the most likely scale of Student's t distribution, of :data:`FREEDOM` degrees, around 0, to within .01."""
    scales = np.arange(0.05, 2.0, 0.01)
    heights = [float(student.logpdf(np.array(distances) / scale, FREEDOM).sum()) for scale in scales]
    return float(scales[int(np.argmax(np.array(heights) - len(distances) * np.log(scales)))])


HEAD = """# Further shifts

Mistakes on a quarter of T that answered nothing, in per cent, by `TransferClassifier()` as it comes (epsilon = 1 on
both sides), means of {splits} splits. The constant is the better one on T, which nobody knows beforehand.
`python -m benchmarks.real.further --data DIRECTORY` writes this page.

Measured by Tandem {version}, commit `{commit:.12}`, {machine}.

| shift | n, N | constant | S in the clear | answer | T in the clear | AUC | log loss, of T's share |
|---|--:|--:|--:|--:|--:|--:|--:|"""


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description="Further shifts of public tables.")
    names = {shift.name: shift for shift in SHIFTS}
    parser.add_argument("--shift", action="append", choices=list(names))
    parser.add_argument("--splits", type=int, default=8, help="splits of each shift (8)")
    parser.add_argument("--data", type=Path, required=True, help="the folder csv of Rdatasets")
    parser.add_argument("--output", type=Path, default=RESULT, metavar="FILE", help="of the page")
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # advice for whoever would run it on few people
    lines = [HEAD.format(splits=chosen.splits, **origin())]
    print(lines[0])
    means: list[tuple[int, Found]] = []
    apart: list[tuple[float, float]] = []
    for name in chosen.shift or names:
        both = load(names[name], chosen.data)
        splits = [measured(both, seed) for seed in range(chosen.splits)]
        (n, agents), found = splits[0][0], Found(*map(fmean, zip(*(each for _, each in splits), strict=True)))
        means.append((agents, found))
        apart.append(odds_apart(both))
        errs = [f"{100.0 * each:.1f}" for each in (found.constant, found.source, found.answer, found.target, found.auc)]
        cells = [f"{n:,}; {agents:,}", *errs, f"{found.log_loss:.3f}, {found.base:.3f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    ends = ["", *(summary(means, "All", 0, math.inf)), *(summary(means, f"N below {FEW:,}", 0, FEW))]
    ends += summary(means, f"N from {FEW:,} on", FEW, math.inf)
    shifts, slopes = zip(*apart, strict=True)
    ends.append(
        f"ln(odds) of T less those of S, at S's middle score: median distance {median(map(abs, shifts)):.2f}, scale "
        f"{scale_of(list(shifts)):.2f} of Student's t distribution with {FREEDOM:g} degrees of freedom. ln(slope) of T "
        f"less that of S: median {median(slopes):+.2f}, mean {fmean(slopes):+.2f}."
    )
    print("\n".join(ends))
    chosen.output.write_text("\n".join([*lines, *ends]) + "\n", "utf-8")


def summary(means: list[tuple[int, Found]], words: str, least: float, most: float) -> list[str]:
    """Return a sentence about the shifts with so many agents, where there are any, and an empty line."""
    chosen = [found for agents, found in means if least <= agents < most]
    if not chosen:
        return []
    mean = Found(*map(fmean, zip(*chosen, strict=True)))
    beyond = [100.0 * (found.answer - found.constant) for found in chosen]
    errs = ", ".join(
        f"{what} {100.0 * value:.1f}" for what, value in zip(("constant", "S", "T", "answer"), mean[:4], strict=True)
    )
    worse = sum(each > 0.5 for each in beyond)
    return [
        f"{words}, {len(chosen)} shifts: {errs}. The answer errs by more than half a point more than the constant in "
        f"{worse} of them, by {max(0.0, *beyond):.1f} points at most. Its log loss is above that of T's share in "
        f"{sum(found.log_loss > found.base for found in chosen)}.",
        "",
    ]


if __name__ == "__main__":
    main()
