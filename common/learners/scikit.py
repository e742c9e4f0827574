"""Settings of classifiers of scikit-learn, with the arguments that are allowed, and of a network in PyTorch."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from common.core.errors import BadMessage, BadScenario
from common.core.values import Value
from common.learners.base import SETTINGS, LearnerSettings
from common.privacy.events import Event, NonPrivate

MAX_WEIGHTS = 1 << 24  # of one network: with gradients and Adam's moments 256 MiB while it is trained


class TorchNetworkSettings(Value):
    """One hidden layer of ReLU, trained by Adam on the cross-entropy, in batches of 256 records.

    Attributes:
        hidden: Units, 1 to 4096.
        epochs: How often each record is seen, 1 to 10,000.
        rate: Adam's learning rate, in (0, 1].
    """

    NAME: ClassVar[str] = "TorchNetwork"

    hidden: int = Field(default=16, ge=1, le=4096)
    epochs: int = Field(default=100, ge=1, le=10_000)
    rate: float = Field(default=0.01, gt=0, le=1)

    def weights(self, dimension: int, classes: int) -> int:
        return self.hidden * (dimension + 1) + classes * (self.hidden + 1)

    def check(self, dimension: int, classes: int) -> None:
        """Raise BadScenario if the network is too large to be tried or trained."""
        weights = self.weights(dimension, classes)
        if weights > MAX_WEIGHTS:
            raise BadScenario(
                f"{self.NAME}: {weights:,} weights are more than the {MAX_WEIGHTS:,} of a teacher: lower hidden"
            )


def _read(value: Any) -> Any:
    """Return an argument with its classifiers parsed, so that an error names the classifier that contains it."""
    if isinstance(value, list):
        return [_read(item) for item in value]
    if not (isinstance(value, dict) and "classifier" in value):
        return value
    try:
        inner = Classifier.parse(value)
        if inner.teaches_only:
            raise ValueError(f"{inner.classifier} is none of scikit-learn's: it cannot stand inside another classifier")
        return inner
    except BadMessage as error:
        raise ValueError(error.detail) from None


Argument = Annotated[
    "bool | int | float | str | Classifier | list[int | float | Classifier] | None", BeforeValidator(_read)
]


OWN = "own:"


class Classifier(Value):
    """A classifier of scikit-learn with its constructor's arguments.

    Attributes:
        parameters: Numbers, strings, booleans, null; a classifier ({"classifier": ..., "parameters": ...}); lists of
            numbers, or of classifiers (``VotingClassifier`` and ``StackingClassifier`` take such a list as
            ``estimators``). ``random_state`` comes from the curator's source if it is null or not given. The arguments
            that a classifier accepts are in :data:`common.learners.scikit.ALLOWED`. ``own:NAME`` is a class of the
            curator's operator (:mod:`curator.learners.foreign`), for teachers only; other parties know only its name.
            ``TorchNetwork``, with the parameters of :class:`TorchNetworkSettings`, is also for teachers only.
    """

    classifier: str = Field(max_length=64)
    parameters: dict[str, Argument] = Field(default_factory=dict)

    @property
    def own(self) -> str:
        """The name of a class of the curator's operator; empty for scikit-learn's."""
        return self.classifier.removeprefix(OWN) if self.classifier.startswith(OWN) else ""

    @property
    def network(self) -> TorchNetworkSettings | None:
        """The settings of a network in PyTorch; None for any other classifier."""
        return TorchNetworkSettings.parse(self.parameters) if self.classifier == TorchNetworkSettings.NAME else None

    @property
    def teaches_only(self) -> bool:
        """Whether it is not scikit-learn's, so that its model cannot be sent as data."""
        return bool(self.own) or self.classifier == TorchNetworkSettings.NAME

    @model_validator(mode="after")
    def _allowed(self) -> Self:
        if self.classifier.startswith(OWN):
            if not self.own.isidentifier():
                raise ValueError(f"a class of one's own is {OWN}NAME, found {self.classifier!r}")
            return self
        try:
            if self.network is not None:
                return self
        except BadMessage as error:
            raise ValueError(error.detail) from None
        if self.classifier in SEVERAL:
            raise ValueError(f"{self.classifier} predicts several labels at once; people have one")
        allowed = ALLOWED.get(self.classifier)
        if allowed is None:
            raise ValueError(f"scikit-learn has no such classifier; it has: {', '.join(sorted(ALLOWED))}")
        refused = sorted(set(self.parameters) - allowed)
        if refused:
            names = ", ".join(sorted(allowed))
            raise ValueError(f"{self.classifier} may not be given {refused[0]!r}; allowed: {names}")
        return self


@SETTINGS.register("scikit")
class ScikitSettings(LearnerSettings, Classifier):
    """Settings of a classifier of scikit-learn (:class:`curator.learners.scikit.Scikit`) that learns from draws."""

    by_choice: ClassVar[frozenset[str]] = frozenset({"onnx"})
    name: Literal["scikit"] = "scikit"
    draws: int = Field(ge=2, le=10**7)

    @model_validator(mode="after")
    def _leaves_as_data(self) -> Self:
        if self.teaches_only:
            raise ValueError(
                f"{self.classifier}: a model leaves as data, so all but those of scikit-learn are teachers only"
            )
        return self

    @property
    def surrogate_loss(self) -> str | None:
        return "logistic" if self.classifier == "LogisticRegression" else None

    def event(self, tv_bound: float) -> Event:
        return NonPrivate()


SEVERAL = ("ClassifierChain", "MultiOutputClassifier")  # classifiers that predict several labels at once


_TREE = (
    "criterion max_depth min_samples_split min_samples_leaf min_weight_fraction_leaf max_features max_leaf_nodes "
    "min_impurity_decrease random_state ccp_alpha"
)
_FOREST = f"{_TREE} n_estimators bootstrap oob_score class_weight max_samples"
_STOPPING = "early_stopping validation_fraction n_iter_no_change"
_ONLINE = f"fit_intercept max_iter tol shuffle random_state class_weight {_STOPPING}"
_KERNEL_MACHINE = (
    "kernel degree gamma coef0 shrinking probability tol class_weight max_iter decision_function_shape break_ties "
    "random_state"
)
_LOGISTIC = "penalty dual tol fit_intercept intercept_scaling class_weight random_state solver max_iter"
_NAIVE = "alpha force_alpha fit_prior class_prior"
_NEIGHBOURS = "weights algorithm leaf_size p metric"
_DISCRIMINANT = "solver shrinkage priors tol"
_PROPAGATION = "kernel gamma n_neighbors max_iter tol"

ALLOWED = {
    name: frozenset(arguments.split())
    for name, arguments in {
        "AdaBoostClassifier": "estimator n_estimators learning_rate random_state",
        "BaggingClassifier": (
            "estimator n_estimators max_samples max_features bootstrap bootstrap_features oob_score random_state"
        ),
        "BernoulliNB": f"{_NAIVE} binarize",
        "CalibratedClassifierCV": "estimator method cv ensemble",
        "CategoricalNB": f"{_NAIVE} min_categories",
        "ComplementNB": f"{_NAIVE} norm",
        "DecisionTreeClassifier": f"{_TREE} splitter class_weight",
        "DummyClassifier": "strategy random_state constant",
        "ExtraTreeClassifier": f"{_TREE} splitter class_weight",
        "ExtraTreesClassifier": f"{_FOREST}",
        "FixedThresholdClassifier": "estimator threshold pos_label response_method",
        "GaussianNB": "priors var_smoothing",
        "GaussianProcessClassifier": "optimizer n_restarts_optimizer max_iter_predict random_state multi_class",
        "GradientBoostingClassifier": (
            f"{_TREE} loss learning_rate n_estimators subsample init validation_fraction n_iter_no_change tol"
        ),
        "HistGradientBoostingClassifier": (
            "loss learning_rate max_iter max_leaf_nodes max_depth min_samples_leaf l2_regularization "
            f"max_features max_bins categorical_features scoring tol random_state class_weight {_STOPPING}"
        ),
        "KNeighborsClassifier": f"{_NEIGHBOURS} n_neighbors",
        "LabelPropagation": f"{_PROPAGATION}",
        "LabelSpreading": f"{_PROPAGATION} alpha",
        "LinearDiscriminantAnalysis": f"{_DISCRIMINANT} n_components",
        "LinearSVC": (
            "penalty loss dual tol C multi_class fit_intercept intercept_scaling class_weight random_state max_iter"
        ),
        "LogisticRegression": f"{_LOGISTIC} C l1_ratio",
        "LogisticRegressionCV": f"{_LOGISTIC} Cs l1_ratios cv scoring refit use_legacy_attributes",
        "MLPClassifier": (
            "hidden_layer_sizes activation solver alpha batch_size learning_rate learning_rate_init power_t "
            "max_iter shuffle random_state tol momentum nesterovs_momentum beta_1 beta_2 epsilon max_fun "
            f"{_STOPPING}"
        ),
        "MultinomialNB": f"{_NAIVE}",
        "NearestCentroid": "metric shrink_threshold priors",
        "NuSVC": f"{_KERNEL_MACHINE} nu",
        "OneVsOneClassifier": "estimator",
        "OneVsRestClassifier": "estimator",
        "OutputCodeClassifier": "estimator code_size random_state",
        "PassiveAggressiveClassifier": f"{_ONLINE} C loss average",
        "Perceptron": f"{_ONLINE} penalty alpha l1_ratio eta0",
        "QuadraticDiscriminantAnalysis": f"{_DISCRIMINANT} reg_param",
        "RadiusNeighborsClassifier": f"{_NEIGHBOURS} radius outlier_label",
        "RandomForestClassifier": f"{_FOREST}",
        "RidgeClassifier": "alpha fit_intercept max_iter tol class_weight solver positive random_state",
        "RidgeClassifierCV": "alphas fit_intercept scoring cv class_weight",
        "SGDClassifier": f"{_ONLINE} loss penalty alpha l1_ratio epsilon learning_rate eta0 power_t average",
        "SVC": f"{_KERNEL_MACHINE} C",
        "SelfTrainingClassifier": "estimator threshold criterion k_best max_iter",
        "StackingClassifier": "estimators final_estimator cv stack_method passthrough",
        "TunedThresholdClassifierCV": "estimator scoring response_method thresholds cv refit random_state",
        "VotingClassifier": "estimators voting weights flatten_transform",
    }.items()
}
"""By classifier, the arguments that it may be given.

Every argument by which a fit could reveal records other than through its model is left out: ``verbose`` (losses on the
standard output), ``n_jobs`` (other processes, with their own warnings and memory), ``warm_start`` (state of an earlier
fit), ``copy_X`` and similar ones (records overwritten in place), ``cache_size``, arguments that store intermediate
results, and arguments that are callables or objects of scikit-learn.
"""
