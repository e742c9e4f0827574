"""The reductions of "The power of synergy", run: each turns a protocol for one task into one for another.

    python -m benchmarks.reductions [--only C.2] [--runs 20] [--json]

C.2: a local selection protocol selects, for each labelled record, among the concepts that are right on it: a learner.
4.3: a protocol for one of 2^d parities that asks the curator first, then each agent once, is turned into an algorithm
of a curator that finds all 2^d. 5.3: agents who hold shares alone choose x themselves and send two messages, for either
label; the curator knows which one counts. 5.5: by simulating that curator for each r, the messages of the agents, sent
once, tell all 2^c secrets: so by (1 - 2 beta) 2^c <= 3 epsilon n there must be many. A minute for twenty runs of each.
Scripts, queries, randomizers and the curator's operations are those of every run; ledgers and services are left out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Bits, Indices
from common.local.hypotheses.composed import Task
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.rules import Parity
from common.local.mechanisms.mechanism import BitMechanism
from common.local.queries.features import CodeQuery
from common.local.queries.query import Answers, AskAgents
from common.local.records import Records
from common.numerics.loops import bits_of
from common.numerics.randomness import RandomSource
from common.protocols.base import AskCurator, Progress
from common.protocols.parities import OneOfManyParities, ParityChoosesSecret
from common.scenario.loading import load
from common.scenario.plan import resolve
from common.scenario.scenario import ResolvedScenario
from common.statistics.frequency import likeliest_parity, signed_shares
from curator.sample.base import LocalSample
from deploy.simulation import local_curator
from referee.protocols.asking import ask_coded, learn_parity
from referee.protocols.frequencies import SelectThenEstimateProtocol
from referee.protocols.parities import OneOfManyParitiesProtocol, find_wanted

Values = Callable[[AskAgents, slice], AnyArray]  # returns the randomized answers of the agents of a slice
Steps = Generator[Any, Any, Any]
EPSILON = 4.0  # of a run, for each side; three times that of 4.3, whose curator divides it among 2^d parities


def played(script: Steps, agents: Values, curator: Callable[[Any], Any] | None = None) -> Any:
    """Run a script and return its result; each question goes to the next agents, each operation to the curator."""
    begin, reply = 0, None
    try:
        while True:
            step = script.send(reply)
            if isinstance(step, AskAgents):
                values = agents(step, slice(begin, begin + step.count))
                begin, reply = begin + step.count, Answers(len(values), values, np.arange(len(values)))
            elif isinstance(step, AskCurator) and curator is not None:
                reply = curator(step.operation)
            else:
                assert isinstance(step, Progress)
                reply = None
    except StopIteration as end:
        return end.value


def honest(people: Records, mechanism: BitMechanism, seed: int) -> Values:
    """Return the answers of people in order: the same coins for the same agent, seed and question."""

    def answer(step: AskAgents, part: slice) -> AnyArray:
        asked = people.take(np.arange(part.start, part.stop)).only(step.query.columns)
        values = step.query.evaluate(asked, np.arange(len(asked)))
        return mechanism.randomize(
            np.asarray(values, dtype=np.float64), RandomSource.seeded(seed, "agents", part.start)
        )

    return answer


def curator_of(scenario: ResolvedScenario, people: Records, seed: int) -> Callable[[Any], Any]:
    """Return the curator's engine on these people."""
    engine, numbers = local_curator(scenario, LocalSample.from_records(people), seed), itertools.count()
    return lambda operation: engine.perform(str(next(numbers)), operation)


# Claim C.2 ------------------------------------------------------------------------------------------------------------


def selection(concepts: int, alpha: float, epsilon: float) -> ResolvedScenario:
    """Return a scenario of local selection among so many features: E[mean] >= max mean - alpha.

    For each feature, n/d agents report it. All d estimates are within alpha/4 with probability 1 - alpha/2 (Hoeffding),
    so the selected mean falls short by alpha/2, and by alpha/2 more on average for the rest of the probability.
    """
    people = {"name": "biased-coins", "d": concepts, "biased": [], "rates": []}
    sides = [f"{side}.distribution={json.dumps(people)}" for side in ("source", "target")]
    sizes = [f"problem.d={concepts}", f"agents.mechanism.epsilon={epsilon}", f"alpha={alpha}", "alone=agents"]
    opened = load("select-then-estimate", [*sides, *sizes])
    width = 1.0 / (2.0 * opened.agents.bit_mechanism.truth - 1.0)
    each = math.ceil(width**2 * math.log(4.0 * concepts / alpha) / (2.0 * (alpha / 4.0) ** 2))
    return resolve(load("select-then-estimate", [*sides, *sizes, f"agents.count={concepts * each}"]))


def converted(people: Records, concepts: Sequence[Hypothesis]) -> Records:
    """Return for each labelled record the record for selection: bit i is 1 if concept i gives the label."""
    right = np.stack([1 - concept.mistakes(people) for concept in concepts], axis=1)
    return Records(np.ascontiguousarray(right), np.ones(len(people), dtype=np.int8))


def learn_by_selection(
    concepts: Sequence[Hypothesis], people: Records, scenario: ResolvedScenario, seed: int
) -> Hypothesis:
    """Return the concept that the selection protocol selects on the converted records: a proper local learner.

    Each agent converts its own record, and answers with its epsilon as before. The concept that labels the records has
    mean 1, so the selected one's error is alpha on average, and by Markov 4 alpha with probability 3/4 (Claim C.2).
    """
    protocol = SelectThenEstimateProtocol()
    script = protocol.agents_alone(protocol.plan(scenario), seed)
    outcome = played(script, honest(converted(people, concepts), scenario.agents.bit_mechanism, seed))
    return concepts[int(outcome.answer.feature)]


def claim_c2(seed: int, bits: int = 4, alpha: float = 0.1) -> dict[str, Any]:
    """Learn a parity of some bits among all of them; right: its error is at most 4 alpha."""
    concepts = [Parity(features=tuple(i for i in range(bits) if k >> i & 1)) for k in range(1 << bits)]
    scenario = selection(len(concepts), alpha, EPSILON)
    coins = np.random.default_rng(seed)
    x = coins.integers(0, 2, (scenario.agents.count, bits), dtype=np.uint8)
    people = Records(x, concepts[int(coins.integers(len(concepts)))].predict(x))
    found = learn_by_selection(concepts, people, scenario, seed)
    return {"right": float(found.mistakes(people).mean()) <= 4.0 * alpha, "agents": scenario.agents.count}


# Claim 4.3 ------------------------------------------------------------------------------------------------------------


def sized(name: str, sizes: dict[str, int], *more: str, epsilon: float = EPSILON) -> ResolvedScenario:
    """Return a scenario whose shares are one more than the curator has people."""

    def of(shares: int) -> ResolvedScenario:
        numbers = {**sizes, "shares": shares}
        sets = [f"{place}.{key}={value}" for place in PLACES for key, value in numbers.items()]
        secret = [f"{side}.distribution.secret=[0]" for side in SIDES if name == "parity-chooses-secret"]
        epsilons = [f"curator.epsilon={epsilon}", f"agents.mechanism.epsilon={epsilon}", "curator.delta=0"]
        return resolve(load(name, [*sets, *secret, *epsilons, *more]))

    return of(of(2).curator.n + 1)


SIDES = ("source", "target")
PLACES = ("problem", "source.distribution", "target.distribution")


def curator_first(scenario: ResolvedScenario, public: int) -> Steps:
    """Find the requested parity: the curator learns all 2^d, with epsilon/2^d each, then every agent answers once."""
    plan = OneOfManyParitiesProtocol().plan(scenario)
    problem: OneOfManyParities = plan.problem
    learned = []
    for which in range(1 << problem.d):
        learned.append((yield from learn_parity(Task(features=problem.c, label=problem.c + which))))
    wanted = yield from find_wanted(plan, plan.count, public)
    return learned[wanted]


def share_records(problem: OneOfManyParities, numbers: Indices, shares: Indices) -> Bits:
    """Return the features of people who hold (t, s_t)."""
    features = np.zeros((len(numbers), problem.dimension), dtype=np.uint8)
    begin = problem.c + (1 << problem.d)
    features[:, begin] = 1
    features[:, begin + 1 : begin + 1 + problem.share_bits] = binary(numbers, problem.share_bits)
    features[:, begin + 1 + problem.share_bits :] = binary(shares[numbers], problem.d)
    return features


def binary(numbers: Indices, bits: int) -> Bits:
    """Return the bits of numbers, the most significant first."""
    return bits_of(numbers.astype(np.uint64) << np.uint64(64 - bits), bits)


def all_parities(scenario: ResolvedScenario, people: Bits, seed: int, *, adaptive: bool = True) -> list[Parity | None]:
    """Find all 2^d parities of people (x, (<x, r_j>)_j) who are all with one curator, by a protocol that finds one.

    Half of the people are replaced by shares of a random number. One share, about which the curator's part reveals
    nothing, is chosen anew for every s, so that the answers of the others serve for all s (Claim 4.3). Without
    ``adaptive`` it stays the same: then the reduction finds the same parity again and again.
    """
    problem = scenario.problem
    assert isinstance(problem, OneOfManyParities)
    n, coins = scenario.curator.n, np.random.default_rng(seed)
    shares = coins.integers(1 << problem.d, size=problem.shares)
    held, numbers = coins.random(len(people)) < 0.5, coins.integers(problem.shares, size=len(people))
    unseen = int(np.setdiff1d(np.arange(problem.shares), numbers[:n][held[:n]])[0])
    engine: Callable[[Any], Any] | None = None
    released: list[Any] = []
    found = []
    for s in range(1 << problem.d):
        shares[unseen] = 0
        shares[unseen] = np.bitwise_xor.reduce(shares) ^ (s if adaptive else 0)
        features = np.zeros((len(people), problem.dimension), dtype=np.uint8)
        features[:, : people.shape[1]] = people
        features[held] = share_records(problem, numbers[held], shares)
        records = Records(features, np.ones(len(people), dtype=np.int8))
        if engine is None:
            engine = curator_of(scenario, records.take(np.arange(n)), seed)
        perform, replayed = engine, iter(list(released))

        def curator(operation: Any, perform: Any = perform, replayed: Any = replayed) -> Any:
            result = next(replayed, None)
            if result is None:
                released.append(result := perform(operation))
            return result

        agents = honest(records.take(np.arange(n, len(people))), scenario.agents.bit_mechanism, seed)
        found.append(played(curator_first(scenario, seed), agents, curator))
    return found


def claim_4_3(seed: int, c: int = 3, d: int = 2) -> dict[str, Any]:
    """Find all parities; right: each of them is. A smaller beta stands for the claim's first step, repetition."""
    epsilon, each = 3.0 * EPSILON, 3.0 * EPSILON / (1 << d)
    budget = (f"curator.learner.epsilon={each}", f"curator.rounds={1 << d}", f"beta={0.05 / (1 << d)}")
    scenario = sized("one-of-many-parities", {"c": c, "d": d}, *budget, epsilon=epsilon)
    coins = np.random.default_rng(seed)
    secrets = coins.integers(0, 2, (1 << d, c))
    x = coins.integers(0, 2, (scenario.curator.n + scenario.agents.count, c))
    people = np.concatenate([x, x @ secrets.T % 2], axis=1).astype(np.uint8)
    found = all_parities(scenario, people, seed)
    wanted = [tuple(np.flatnonzero(secret).tolist()) for secret in secrets]
    right = [parity is not None and parity.features == features for parity, features in zip(found, wanted, strict=True)]
    return {"right": all(right), "people": len(people)}


# Claim 5.3 and Lemma 5.5 ----------------------------------------------------------------------------------------------


def agents_first(problem: ParityChoosesSecret, mechanism: BitMechanism, count: int) -> Steps:
    """Find s_r when all agents are asked at once, before anything is known: for r, and for a share of any secret.

    A quarter of the agents is asked for r itself, which takes 2^c of them; the others for the secrets in turn.
    """
    search = yield from ask_coded(CodeQuery(first=0, bits=problem.c, sign="label", public=1), count // 4)
    each, bits = (count - count // 4) >> problem.c, []
    for which in range(1 << problem.c):
        sign = problem.c + problem.share_bits + which
        query = CodeQuery(first=problem.c, bits=problem.share_bits, sign=sign, public=1000 * (which + 2))
        asked = yield from ask_coded(query, each)
        bits.append(int(np.count_nonzero(signed_shares(asked, mechanism)[: problem.shares] < 0.0) & 1))
    which = likeliest_parity(search)
    return which, bits[which]


def with_shares_alone(
    scenario: ResolvedScenario, volunteers: Records, holders: Bits, seed: int, *, chosen: bool = True
) -> tuple[int, int]:
    """Find which secret is requested, and its value, with agents who hold only shares: no x and no label (Claim 5.3).

    Each agent chooses x and sends its message for the label 0 and that for the label 1; the curator, who learns r,
    takes the one for <x, r>. Both sides answer twice, at 2 epsilon. With ``chosen`` False it always takes the first.
    """
    problem, mechanism = scenario.problem, scenario.agents.bit_mechanism
    assert isinstance(problem, ParityChoosesSecret)
    learned = played(
        learn_parity(Task(features=problem.c)), lambda step, part: np.zeros(0), curator_of(scenario, volunteers, seed)
    )
    features = holders.copy()
    features[:, : problem.c] = np.random.default_rng(seed).integers(0, 2, (len(holders), problem.c))
    sent = [
        honest(Records(features, np.full(len(holders), label, dtype=np.int8)), mechanism, seed + label)
        for label in (-1, 1)
    ]
    labels = (learned or Parity(features=())).predict(features) if chosen else np.full(len(holders), -1)

    def agents(step: AskAgents, part: slice) -> AnyArray:
        zero, one = (messages(step, part) for messages in sent)
        return np.where(labels[part] > 0, one, zero)

    return played(agents_first(problem, mechanism, len(holders)), agents)  # type: ignore[no-any-return]


def all_secrets(scenario: ResolvedScenario, secrets: Bits, agents: int, seed: int) -> list[int]:
    """Find all 2^c bits that every agent holds, from messages that are sent once, without a curator (Lemma 5.5).

    The referee draws the shares of all numbers except one, which none of its simulated volunteers holds; an agent that
    draws that number sends what completes the shares to the secret. Then it simulates the volunteers of each r in turn.
    """
    problem, coins = scenario.problem, np.random.default_rng(seed)
    assert isinstance(problem, ParityChoosesSecret)
    shares = coins.integers(0, 2, (problem.shares, 1 << problem.c), dtype=np.uint8)
    n = scenario.curator.n
    x, of_volunteers = coins.integers(0, 2, (n, problem.c), dtype=np.uint8), coins.integers(problem.shares, size=n)
    unseen = int(np.setdiff1d(np.arange(problem.shares), of_volunteers)[0])
    shares[unseen] = 0
    shares[unseen] = secrets ^ np.bitwise_xor.reduce(shares, axis=0)  # each agent does this with its own secrets

    def records(first: Bits, numbers: Indices) -> Bits:
        return np.concatenate([first, binary(numbers, problem.share_bits), shares[numbers]], axis=1)

    holders = records(np.zeros((agents, problem.c), dtype=np.uint8), coins.integers(problem.shares, size=agents))
    found = []
    for r in range(1 << problem.c):
        parity = Parity(features=tuple(i for i in range(problem.c) if r >> (problem.c - 1 - i) & 1))
        volunteers = Records(records(x, of_volunteers), parity.predict(x))
        which, bit = with_shares_alone(scenario, volunteers, holders, seed)
        found.append(bit if which == r else -1)
    return found


def chooses(c: int, beta: float = 0.05) -> tuple[ResolvedScenario, int]:
    """Return a scenario about 2^c secrets, and how many agents :func:`agents_first` needs: 2^c times those for one."""
    scenario = sized("parity-chooses-secret", {"c": c}, f"beta={beta}")
    return scenario, (scenario.agents.count << c) * 4 // 3 + 4


def claim_5_3(seed: int, c: int = 3) -> dict[str, Any]:
    """Find the requested secret with agents who hold only shares; right: which one it is, and its value."""
    scenario, agents = chooses(c)
    people, problem = scenario.target.distribution, scenario.problem
    assert people is not None
    assert isinstance(problem, ParityChoosesSecret)
    volunteers = people.draw(seed, np.arange(scenario.curator.n))
    holders = people.draw(seed + 1, np.arange(agents)).features
    which, bit = with_shares_alone(scenario, volunteers, holders, seed)
    truth = problem.judge({"kind": "secret", "which": which, "bit": bit}, scenario.alpha, people)
    return {"right": truth["correct"], "volunteers": len(volunteers), "agents": agents}


def lemma_5_5(seed: int, c: int = 3) -> dict[str, Any]:
    """Find all secrets that every agent holds; right: each of them is. ``least`` is the lemma's bound on the agents."""
    scenario, agents = chooses(c, 0.05 / (1 << c))  # right for each of the 2^c
    secrets = np.random.default_rng(seed + 1).integers(0, 2, 1 << c, dtype=np.uint8)
    found = all_secrets(scenario, secrets, agents, seed)
    least = math.ceil((1.0 - 2.0 * scenario.beta) * (1 << c) / (3.0 * EPSILON))
    return {"right": found == secrets.tolist(), "agents": agents, "least": least}


CLAIMS: dict[str, Callable[[int], dict[str, Any]]] = {
    "C.2": claim_c2,
    "4.3": claim_4_3,
    "5.3": claim_5_3,
    "5.5": lemma_5_5,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run each reduction a number of times, and print how often what it must find was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", choices=tuple(CLAIMS))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    for name, claim in CLAIMS.items():
        if given.only in (None, name):
            runs = [claim(seed) for seed in range(1, given.runs + 1)]
            right = sum(run["right"] for run in runs)
            row = {"claim": name, **runs[0], "right": right, "runs": given.runs}
            sizes = ", ".join(f"{key} {value:,}" for key, value in row.items() if key not in ("claim", "right", "runs"))
            print(json.dumps(row) if given.json else f"{name}: right in {right} of {given.runs} runs ({sizes})")


if __name__ == "__main__":
    main()
