"""A learner that trains any classifier of scikit-learn; not private."""

import warnings
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import ValidationError, model_validator

from common.core.arrays import AnyArray, Indices, Singles
from common.core.errors import BadScenario
from common.core.values import explain
from common.learners import scikit as settings
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.rules import Constant
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.export import as_hypothesis
from curator.learners import foreign
from curator.learners.base import LEARNERS, CallSizes, Learner
from curator.mechanisms.access import Access

MIN_AGREEMENT = 0.999  # share of the draws on which the hypothesis must predict as the fitted model does

MIN_BESIDE_TIES = 0.9
"""The same share if neighbours may tie in distance, provided that a twin without ties reaches the share above."""


@cache
def classifiers() -> dict[str, type[Any]]:
    """Return scikit-learn's classifiers by name; a scenario can name only these."""
    from sklearn.utils import all_estimators  # imported here, as it is slow to load

    return dict(all_estimators("classifier"))


class Trainable(settings.Classifier):
    """A classifier of scikit-learn with arguments that its constructor accepts."""

    @model_validator(mode="after")
    def _has_parameters(self) -> Self:
        if not self.missing:
            build(self, 0)
        return self

    @property
    def missing(self) -> str:
        """What this process lacks to train it as a curator, with the remedy; empty if nothing is missing."""
        if self.own and not foreign.is_named(self.own):
            return foreign.missing_class(self.own)
        if self.network is not None and not foreign.has_torch():
            return f"{self.classifier} needs PyTorch: pip install 'tandem-hybrid[torch]'"
        return ""

    def train(self, records: Records, source: RandomSource) -> Hypothesis:
        """Fit it to records and export its model as data; if all records have one label, return a constant hypothesis.

        Raises:
            BadScenario: If it refuses its parameters or the records, or its model cannot be exported.
        """
        if records.labels.min() == records.labels.max():
            return Constant(label=1 if records.labels[0] > 0 else -1)
        model = build(self, int(source.derive("model").integers(1 << 32, 1)[0]))
        hypothesis = self._fit_and_export(model, records)
        agreement = _agreement(hypothesis, model, records.features)
        if MIN_BESIDE_TIES <= agreement < MIN_AGREEMENT:
            # Among equally near neighbours scikit-learn takes the first that it finds. So compare with a twin that
            # learns from slightly perturbed draws, no two of which are equally near.
            spread = (records.features.max(axis=0) - records.features.min(axis=0)) * 1e-3
            noise = source.derive("ties").uniforms(records.features.size).reshape(records.features.shape)
            perturbed = Records((records.features + noise * spread).astype(np.float32), records.labels)
            from sklearn.base import clone

            twin = clone(model)
            agreement = _agreement(self._fit_and_export(twin, perturbed), twin, perturbed.features)
        if agreement < MIN_AGREEMENT:
            raise BadScenario(
                f"{self.classifier}: as data its model agrees with itself on {agreement:.1%} of the draws only"
            )
        return hypothesis

    def check_trainable(self, features: AnyArray, classes: Indices) -> None:
        """Fit it to points of several classes and predict, as a trial; BadScenario if it refuses something."""
        if self.missing:
            return
        model = build(self, 0)
        self._fit(model, features, classes)
        if self.teaches_only and not np.isin(np.asarray(model.predict(features[:2])), classes).all():
            raise BadScenario(f"{self.classifier}: predict must return a class for each row")

    def _fit(self, model: Any, features: AnyArray, classes: Indices) -> None:
        try:
            with warnings.catch_warnings():
                # Not converged, collinear, ...: the test on people decides what the model is worth.
                warnings.simplefilter("ignore")
                model.fit(features, classes)
        except (ValueError, TypeError) as error:
            reason, parameters = str(error).partition("\n")[0], self.wire()["parameters"]
            raise BadScenario(f"{self.classifier} cannot learn with {parameters}: {reason}") from None

    def _fit_and_export(self, model: Any, records: Records) -> Hypothesis:
        # As 0 and 1: semi-supervised classifiers take -1 for "unknown".
        self._fit(model, records.features, (records.labels > 0).astype(np.int64))
        try:
            return as_hypothesis(model, records.features[:1])
        except ValidationError as error:
            raise BadScenario(f"{self.classifier}: its model is too large: {explain(error)}") from None
        except ValueError as error:
            raise BadScenario(f"{self.classifier}: its model cannot be sent as data: {error}") from None


def build(classifier: settings.Classifier, seed: int) -> Any:
    """Return a classifier whose randomness all comes from the seed; ValueError if scikit-learn has no such class."""
    name = classifier.classifier
    if classifier.own:
        return foreign.make(classifier.own, classifier.parameters, seed)
    if classifier.network is not None:
        return foreign.TorchNetwork(classifier.network, seed)
    if name not in classifiers():
        raise ValueError(f"scikit-learn has no such classifier; it has: {', '.join(sorted(classifiers()))}")
    arguments = {key: _argument(value, seed) for key, value in classifier.parameters.items()}
    if isinstance(arguments.get("estimators"), list):
        arguments["estimators"] = [(f"e{place}", inner) for place, inner in enumerate(arguments["estimators"])]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what scikit-learn deprecates still works
            model = classifiers()[name](**arguments)
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from None
    # Null would be NumPy's own generator: all teachers share it, so a record would change the teachers after its own.
    if "random_state" in model.get_params(deep=False) and classifier.parameters.get("random_state") is None:
        model.set_params(random_state=seed)
    return model


def _argument(value: Any, seed: int) -> Any:
    if isinstance(value, settings.Classifier):
        return build(value, seed)
    return [_argument(item, seed) for item in value] if isinstance(value, list) else value


@LEARNERS.register("scikit")
class Scikit(settings.ScikitSettings, Trainable, Learner):
    """A scikit-learn classifier, trained on m draws.

    Models are sent as data, never as pickles: models with a linear decision function as a half-space
    (``LogisticRegression``, ``LinearSVC``, ...), models of trees as trees (``RandomForestClassifier``,
    ``HistGradientBoostingClassifier``, ...), and all others as a small graph (``KNeighborsClassifier``, ``GaussianNB``,
    ``MLPClassifier``, ``SVC``, ``StackingClassifier``, ...). To evaluate a graph, a party needs the extra ``onnx`` and
    a policy that accepts graphs. Graphs of neighbours and kernels contain draws. A graph has at most 1 MiB, that is
    about 130000 numbers.
    """

    examples: ClassVar = ({"classifier": "LogisticRegression", "draws": 2000},)

    def room(self, sizes: CallSizes) -> int:
        """Return the bytes of the draws, counted twice, and of a copy in doubles; models of kernels take more."""
        return self.draws * (2 * sizes.width + 8 * sizes.dimension + 64)

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        return self.train(access.records(self.draws), access.source)


def _agreement(hypothesis: Hypothesis, model: Any, features: Singles) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = model.predict(features)
    return float(np.mean((hypothesis.predict(features) > 0) == (predicted > 0)))
