"""The public sample: the same for everybody, without labels where they are not known; scenarios with a real part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from common.core.errors import BadInput, BadScenario
from common.scenario.loading import load
from common.scenario.resolved import parse_resolved
from common.scenario.scenario import parse, policy_digest, public_sample
from curator.service.startup import open_curator
from tests.tiers import for_each

LINE = {"name": "drifting-line", "side": "target", "d": 3}
PLAIN = {
    "name": "with-public",
    "title": "t",
    "protocol": "learn-and-test",
    "alpha": 0.1,
    "divergence": {"chi_squared": 1.0},
    "source": {"distribution": LINE},
    "target": {"distribution": LINE},
    "public": {"distribution": {**LINE, "side": "source"}, "count": 50},
    "curator": {
        "n": 100, "kappa": None, "eta": 1.0, "rounds": 1,
        "learner": {"name": "scikit", "classifier": "GaussianNB", "draws": 50},
    },
    "agents": {"count": 100, "mechanism": {"name": "warner", "epsilon": 1.0}},
}  # fmt: skip


def test_the_same_seed_gives_everybody_the_same_public_sample():
    chosen = parse(PLAIN)
    one, same, other = (public_sample(chosen, seed) for seed in (1, 1, 2))
    assert len(one) == 50
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()
    assert set(one.labels.tolist()) == {-1, 1}
    assert public_sample(parse({**PLAIN, "public": None}), 1) is None


def test_unknown_labels_tell_nothing():
    unlabelled = public_sample(parse({**PLAIN, "public": {**PLAIN["public"], "labelled": False}}), 1)
    assert set(unlabelled.labels.tolist()) == {1}
    np.testing.assert_array_equal(unlabelled.features, public_sample(parse(PLAIN), 1).features)


@for_each(
    ("public", "reason"),
    [
        ({"distribution": {**LINE, "d": 4}, "count": 50}, "public people have 5 features, the curator's 4"),
        ({"distribution": LINE}, "how many public people"),
        ({"count": 50}, "either a distribution or a table"),
        ({"distribution": LINE, "count": 0}, "count"),
    ],
)
def test_a_public_sample_that_does_not_fit_is_refused(public, reason):
    with pytest.raises(BadScenario, match=reason):
        parse({**PLAIN, "public": public})


def test_the_curator_agrees_to_the_public_sample_too(tmp_path):
    chosen = parse_resolved(PLAIN)
    assert policy_digest(chosen) != policy_digest(parse({**PLAIN, "public": {**PLAIN["public"], "count": 51}}))
    open_curator(chosen, tmp_path, 1, None).close()
    (tmp_path / "public-people").write_text("others")
    with pytest.raises(BadInput, match="has changed"):
        open_curator(chosen, tmp_path, 1, None)


class TestReal:
    @pytest.fixture
    def file(self, tmp_path):
        table = {"label": {"column": "y", "positive": ["1"], "negative": ["0"]},
                 "features": [{"kind": "number", "column": c, "low": 0, "high": 1} for c in "abcd"]}  # fmt: skip
        real = {side: {"table": {"files": [f"{side}.csv"], **table}} for side in ("source", "target", "public")}
        path = tmp_path / "both.yaml"
        path.write_text(yaml.safe_dump({**PLAIN, "real": {**real, "alpha": 0.3, "curator": {"n": 40, "epsilon": 1.0}}}))
        return str(path)

    def test_without_data_people_are_simulated(self, file):
        assert load(file) == parse(PLAIN)

    def test_with_data_the_real_ones_are_laid_over(self, file, tmp_path):
        real = load(file, [f"data={tmp_path}", "alpha=0.2"])
        assert real.people == "real"
        assert real.source.table is not None
        assert real.source.distribution is None
        assert real.public.count is None
        assert (real.curator.n, real.curator.epsilon, real.curator.rounds) == (40, 1.0, 1)
        assert real.alpha == 0.2  # the user has the last word

    def test_a_folder_of_data_sets_is_as_good_as_the_one_that_is_meant(self, file, tmp_path):
        path = tmp_path / "named.yaml"
        path.write_text(Path(file).read_text().replace("real:\n", "real:\n  data: census\n"))
        (tmp_path / "census").mkdir()
        for given in (tmp_path, tmp_path / "census"):
            assert load(str(path), [f"data={given}"]).data == str(tmp_path / "census")

    def test_what_is_no_mapping_is_refused(self, tmp_path):
        path = tmp_path / "odd.yaml"
        path.write_text(yaml.safe_dump({**PLAIN, "real": [1]}))
        with pytest.raises(BadScenario, match="real must be a mapping"):
            load(str(path))
