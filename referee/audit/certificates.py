"""Recheck a privacy certificate independently: nothing here is taken from the accountants or their theorems.

This file can be read on its own, and :mod:`referee.audit.recomputing` after it. A certificate lists events, an
accountant's name and numbers, and claims (epsilon, delta). It may come from anybody, so this file trusts nothing in it:
each value has the range of :data:`EVENTS`, :data:`CLAIM` or :data:`~referee.audit.recomputing.METHODS`, and other
values are refused. The ranges bound the time and the memory that a certificate can take. Then delta is recomputed at
the claimed epsilon, and the cost of the noise's distance from its exact law is added.

An accepted claim is true up to :data:`TOLERANCE`: the recomputed delta is an upper bound on what any adversary reaches,
except that quadratures are central values, accurate to a thousandth. So events that are accepted at (epsilon, delta)
are (epsilon, (1 + TOLERANCE) delta)-DP, whatever numbers the certificate has.
"""

import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from common.core import canonical
from common.core.errors import AuditFailed
from referee.audit.recomputing import METHODS, Range, Row, count_range

TOLERANCE = 0.01  # relative error in delta that a recomputation may have

NEIGHBOURS = "one record replaced, n public"
NUMBER = Fraction(1, 2**180)
"""Total variation between one drawn number of Gaussian noise and the exact law: docs/privacy.md."""

MOST_ROWS = 4096  # most kinds of events in one certificate

_EPSILON, _FAILURE, _BOUND, _MU = Range(1e-15, 1e6), Range(0.0, 1.0, below=True), Range(1e-18, 1.0), Range(1e-12, 1e6)

EVENTS: dict[str, dict[str, Range]] = {
    "none": {},
    "subsampled-steps": {"count": count_range(1 << 53), "tv_bound": _BOUND, "ratio": Range(1e-9, 1e3)},
    "subsampled-release": {"draws": count_range(1 << 53), "tv_bound": _BOUND, "epsilon": _EPSILON, "delta": _FAILURE},
    "release": {"epsilon": _EPSILON, "delta": _FAILURE},
    "gaussian": {"count": count_range(1 << 53), "mu": _MU},
    "selected": {"mu": _MU},
}
"""The values of each kind of event; a selected one also has a law."""

LAWS: dict[str, dict[str, Range]] = {
    "negative-binomial": {"most": count_range(1024), "eta": Range(-1.0, 16.0, above=True), "gamma": Range(1e-30, 1.0)},
    "poisson": {"most": count_range(1024), "rate": Range(1e-6, 500.0)},
}

CLAIM = {"epsilon": Range(0.0, 1e9), "delta": _FAILURE, "distance": Range(0.0, 1.0)}


_GRID = frozenset({"width", "tilt", "points"})


def recheck(certificate: dict[str, Any], events: list[dict[str, Any]], epsilon: float, delta: float) -> float:
    """Check that a certificate is about exactly these events, and that it correctly claims at most (epsilon, delta).

    Returns delta as recomputed at the certificate's epsilon. ``AuditFailed`` names what is wrong.
    """
    counts = _events(certificate)
    if counts != Counter(canonical.encode(event) for event in events):
        raise AuditFailed("the privacy certificate is about other events than those on record")
    rows, numbers = _read(certificate)
    claimed = {part: allowed.read(part, certificate[part]) for part, allowed in CLAIM.items()}
    if not (claimed["epsilon"] <= epsilon and claimed["delta"] <= delta):
        claim = f"({claimed['epsilon']:g}, {claimed['delta']:g}), not ({epsilon:g}, {delta:g})"
        raise AuditFailed(f"the privacy certificate shows {claim}")
    epsilon, delta = claimed["epsilon"], claimed["delta"]
    paid = _noise(rows, claimed["distance"], epsilon)
    left = delta - paid
    if left < 0.0:
        raise AuditFailed(f"the privacy certificate's noise costs {paid:g}, which leaves nothing of delta = {delta:g}")
    recomputed = _recomputed(canonical.encode([certificate["accountant"], rows, epsilon, left, numbers]))
    if not 0.0 <= recomputed <= left * (1.0 + TOLERANCE) + 1e-300:
        raise AuditFailed(
            f"the privacy certificate claims delta = {delta:g} at epsilon = {epsilon:g}, of which {paid:g} "
            f"is for the noise's distance from its exact law; recomputed it is {recomputed:g} without that"
        )
    return paid + recomputed


@lru_cache(maxsize=64)
def _recomputed(encoded: bytes) -> float:
    name, rows, epsilon, delta, numbers = canonical.decode(encoded)
    return METHODS[str(name)].delta([(event, count) for event, count in rows], epsilon, delta, numbers) if rows else 0.0


# Reading ------------------------------------------------------------------------------------------------------------


def _events(certificate: Any) -> Counter[bytes]:
    names = {"kind", "neighbours", "events", "accountant", "numbers", *CLAIM}
    entries = _fields(certificate, "certificate", names)["events"]
    if not isinstance(entries, list | tuple) or len(entries) > MOST_ROWS:
        raise AuditFailed(f"the privacy certificate's events are no list of at most {MOST_ROWS:,} kinds")
    counts: Counter[bytes] = Counter()
    for entry in entries:
        event = _event(_fields(entry, "event with its count", {"event", "count"})["event"])
        counts[canonical.encode(event)] += int(count_range(1 << 53).read("count", entry["count"]))
    return counts


def _event(event: Any) -> dict[str, Any]:
    kind = event.get("kind") if isinstance(event, dict) else None
    if not isinstance(kind, str) or kind not in EVENTS:
        raise AuditFailed("the privacy certificate has an event of an unknown kind")
    law = {"law"} if kind == "selected" else set()
    fields = dict(_fields(event, f"event of kind {kind!r}", {"kind", *EVENTS[kind], *law}))
    for name, allowed in EVENTS[kind].items():
        allowed.read(f"{kind}'s {name}", fields[name])
    if law:
        law_name = fields["law"].get("name") if isinstance(fields["law"], dict) else None
        if not isinstance(law_name, str) or law_name not in LAWS:
            raise AuditFailed("the privacy certificate has a choice of an unknown law")
        for part, allowed in LAWS[law_name].items():
            allowed.read(f"law's {part}", _fields(fields["law"], f"law {law_name!r}", {"name", *LAWS[law_name]})[part])
    return fields


def _read(certificate: dict[str, Any]) -> tuple[list[Row], dict[str, float]]:
    """Return the events with their counts, and the accountant's numbers, all in range; none where nothing was spent."""
    if certificate["kind"] != "privacy-certificate":
        raise AuditFailed("this is no privacy certificate")
    if certificate["neighbours"] != NEIGHBOURS:
        raise AuditFailed(f"the privacy certificate is about other neighbours than {NEIGHBOURS!r}")
    name = certificate["accountant"]
    if not isinstance(name, str) or name not in METHODS:
        raise AuditFailed(f"no way is known to recheck a certificate of this accountant; known: {', '.join(METHODS)}")
    rows: list[Row] = [
        (entry["event"], int(entry["count"]) * int(entry["event"].get("count", 1)))
        for entry in certificate["events"]
        if entry["event"]["kind"] != "none"
    ]
    method = METHODS[name]
    for event, _ in rows:
        if event["kind"] not in method.kinds:
            raise AuditFailed(f"a certificate of {name!r} is not about an event of kind {event['kind']!r}")
    numbers = certificate["numbers"]
    if not isinstance(numbers, dict):
        raise AuditFailed("the privacy certificate's numbers are none")
    if not rows:
        return [], {}
    names = set(method.numbers) - (method.optional - set(numbers))
    return rows, {
        part: method.numbers[part].read(f"grid's {part}" if part in _GRID else part, value)
        for part, value in _fields(numbers, "numbers", names).items()
    }


def _fields(value: Any, what: str, names: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict) or value.keys() != names:
        raise AuditFailed(f"the privacy certificate's {what} must have exactly {', '.join(sorted(names)) or 'nothing'}")
    return value


def _noise(rows: list[Row], distance: float, epsilon: float) -> float:
    """Return the part of delta for noise at ``distance`` from its law: (1 + e^eps) times that (docs/privacy.md).

    It refuses a distance below that of all numbers together: 2^30 in each noisy step, 2^50 in each Gaussian release, in
    each of the ``most`` runs of a choice. All other noise is exact.
    """
    drawn = 0
    for event, count in rows:
        draws = {"subsampled-steps": 1 << 30, "gaussian": 1 << 50, "selected": 1 << 50}.get(event["kind"], 0)
        drawn += count * draws * int(event["law"]["most"] if event["kind"] == "selected" else 1)
    if not Fraction(distance) >= drawn * NUMBER:
        raise AuditFailed(
            f"the privacy certificate counts noise within {distance:g} of its exact law; its events draw "
            f"{drawn:,} numbers, which may be {float(drawn * NUMBER):g} from it"
        )
    return distance * (1.0 + math.exp(min(epsilon, 700.0)))
