"""Conversion of a fitted classifier of scikit-learn to a hypothesis: a constant, a half-space, trees, or a small graph.

Functions that write into a graph take the graph, a fitted binary classifier and the name of a matrix of features, and
return the name of a column.
"""

import base64
from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Floats
from common.local.hypotheses.hypothesis import Hypothesis, Linear
from common.local.hypotheses.onnx import DOUBLE, FLOAT, INT64, GraphBuilder, Onnx, ensemble, require_packages
from common.local.hypotheses.onnx_operators import ML
from common.local.hypotheses.rules import Constant, Trees
from curator.exported_trees import forest_of


class Unwritable(ValueError):
    """A class or a setting that cannot be exported; other parties never see this exception as such."""


def as_hypothesis(model: Any, example: AnyArray) -> Hypothesis:
    """Export a fitted binary classifier (classes -1 and +1) as data.

    Args:
        model: The fitted classifier.
        example: A point, shape (1, d), at which the constant of a sum of trees is determined.

    Raises:
        ValueError: If it cannot be exported, or the result is too large; states why.
    """
    if type(model).__name__ == "DummyClassifier":
        return Constant(label=1 if model.predict(example)[0] > 0 else -1)
    forest = forest_of(model, example)
    if forest is not None:
        return forest
    if hasattr(model, "coef_"):
        weights = np.asarray(model.coef_, dtype=np.float64).ravel()
        return Linear(weights=tuple(weights.tolist()), threshold=-float(np.ravel(model.intercept_)[0]))
    require_packages()
    graph = GraphWriter(example.shape[1])
    return Onnx(model=base64.b64encode(graph.finish(margin(graph, model, graph.features))).decode("ascii"))


class GraphWriter(GraphBuilder):
    """A graph under construction. Numbers are doubles: the models were fitted in double precision.

    Attributes:
        features: Name of the features, a double matrix with one row per person.
    """

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self._dimension = dimension
        self.features = self("Cast", "x", to=DOUBLE)

    def constant(self, value: Any) -> str:
        array = np.asarray(value)
        return super().constant(array if array.dtype == np.int64 else array.astype(np.float64))

    def sum(self, matrix: str) -> str:
        return self("ReduceSum", matrix, np.array([1]))

    def square(self, matrix: str) -> str:
        return self("Mul", matrix, matrix)

    def column(self, value: float) -> str:
        """Return a column with the same number in every row."""
        first = self.columns(self.features, [0])
        return self("Where", self("Equal", first, first), float(value), float(value))

    def join(self, columns: list[str]) -> str:
        while len(columns) > 1:
            columns = [self("Concat", *columns[i : i + 256], axis=1) for i in range(0, len(columns), 256)]
        return columns[0]

    def indicator(self, truth: str) -> str:
        return self("Cast", truth, to=DOUBLE)

    def trees(self, matrix: str, forest: Trees) -> str:
        arrays = ensemble(forest)
        total = self(
            "TreeEnsembleRegressor",
            self("Cast", matrix, to=FLOAT),
            domain=ML,
            n_targets=1,
            target_ids=[0] * len(arrays.leaves),
            target_weights=np.array(forest.threshold)[arrays.leaves].astype(np.float32).tolist(),
            **arrays.attributes,
        )
        return self("Add", self("Cast", total, to=DOUBLE), forest.base)

    def mean(self, columns: list[str], weights: list[float] | None = None) -> str:
        shares = np.ones(len(columns)) if weights is None else np.asarray(weights, dtype=np.float64)
        return self("MatMul", self.join(columns), (shares / shares.sum()).reshape(-1, 1))

    def finish(self, margin: str) -> bytes:
        """Return the model with label 1 where the column ``margin`` is positive, and -1 elsewhere."""
        inputs = [self("Greater", margin, 0.0), self.constant(1), self.constant(-1)]
        self.nodes.append(self.helper.make_node("Where", inputs, ["label"]))
        features, label = ("x", FLOAT, ["rows", self._dimension]), ("label", INT64, ["rows", 1])
        return bytes(self.model("hypothesis", [features], [label]).SerializeToString())


def _inner(graph: GraphWriter, model: Any, matrix: str) -> tuple[Any, str] | None:
    """Return the classifier to which a classifier delegates its decision and probability, and the input of that one."""
    match type(model).__name__:
        case "SelfTrainingClassifier" | "FixedThresholdClassifier" | "TunedThresholdClassifierCV":
            return model.estimator_, matrix
        case "OneVsRestClassifier":
            return model.estimators_[0], matrix
        case "StackingClassifier":
            writers = {"predict_proba": probability, "decision_function": decision, "predict": prediction}
            pairs = zip(model.stack_method_, model.estimators_, strict=True)
            columns = [writers[method](graph, inner, matrix) for method, inner in pairs]
            return model.final_estimator_, graph.join([*columns, matrix] if model.passthrough else columns)
    return None


def decision(graph: GraphWriter, model: Any, matrix: str) -> str:
    """Write ``decision_function``."""
    inner = _inner(graph, model, matrix)
    if inner is not None:
        return decision(graph, *inner)
    name = type(model).__name__
    writers = {
        "QuadraticDiscriminantAnalysis": _quadratic_discriminant,
        "SVC": _kernel_machine,
        "NuSVC": _kernel_machine,
        "NearestCentroid": _nearest_centroid,
        "AdaBoostClassifier": _adaboost,
    }
    if name in writers:
        return writers[name](graph, model, matrix)
    if name == "BaggingClassifier":
        pairs = zip(model.estimators_, model.estimators_features_, strict=True)
        return graph.mean([decision(graph, bag, graph.columns(matrix, features)) for bag, features in pairs])
    if hasattr(model, "coef_"):
        return graph("Add", graph("MatMul", matrix, model.coef_.reshape(-1, 1)), float(model.intercept_.ravel()[0]))
    forest = forest_of(model, np.zeros((1, model.n_features_in_)))
    if forest is None:
        raise Unwritable(f"the decision function of {name}")
    return graph.trees(matrix, forest)


_SIGMOIDS = {
    "LogisticRegression", "LogisticRegressionCV", "LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis",
    "AdaBoostClassifier", "HistGradientBoostingClassifier",
}  # fmt: skip
"""Classifiers whose probability is the sigmoid of the decision function."""


def probability(graph: GraphWriter, model: Any, matrix: str) -> str:
    """Write the probability of the greater class."""
    if len(model.classes_) == 1:  # as in a bootstrap sample with one label only
        return graph.column(float(model.classes_[0] > 0))
    inner = _inner(graph, model, matrix)
    if inner is not None:
        return probability(graph, *inner)
    name = type(model).__name__
    if name in _SIGMOIDS:
        return graph("Sigmoid", decision(graph, model, matrix))
    match name:
        case "GaussianNB" | "MultinomialNB" | "ComplementNB" | "BernoulliNB" | "CategoricalNB":
            return graph("Sigmoid", _naive_bayes(graph, model, matrix))
        case "DecisionTreeClassifier" | "ExtraTreeClassifier" | "RandomForestClassifier" | "ExtraTreesClassifier":
            forest = forest_of(model, np.zeros((1, model.n_features_in_)))
            assert forest is not None  # noqa: S101 - these four are made of trees
            return graph("Add", graph("Div", graph.trees(matrix, forest), float(len(forest.roots))), 0.5)
        case "GradientBoostingClassifier":
            factor = 2.0 if model.loss == "exponential" else 1.0
            return graph("Sigmoid", graph("Mul", decision(graph, model, matrix), factor))
        case "SGDClassifier":
            value = decision(graph, model, matrix)
            if model.loss != "modified_huber":
                return graph("Sigmoid", value)
            return graph("Div", graph("Add", graph("Min", graph("Max", value, -1.0), 1.0), 1.0), 2.0)
        case "DummyClassifier":
            if model.strategy in ("stratified", "uniform"):
                raise Unwritable(f"coin flips, as DummyClassifier makes with strategy {model.strategy!r}")
            return graph.column(float(model.predict_proba(np.zeros((1, model.n_features_in_)))[0, 1]))
        case "VotingClassifier":
            shares = [probability(graph, voter, matrix) for voter in model.estimators_]
            return graph.mean(shares, model._weights_not_none)
        case "CalibratedClassifierCV":
            return graph.mean([_calibrated(graph, calibrated, matrix) for calibrated in model.calibrated_classifiers_])
    writers = {
        "MLPClassifier": _multilayer_perceptron,
        "KNeighborsClassifier": _nearest_neighbors,
        "RadiusNeighborsClassifier": _radius_neighbors,
        "LabelPropagation": _label_propagation,
        "LabelSpreading": _label_propagation,
        "BaggingClassifier": _bagging,
    }
    if name not in writers:
        raise Unwritable(f"the probabilities of {name}")
    return writers[name](graph, model, matrix)


def response(graph: GraphWriter, model: Any, matrix: str) -> tuple[str, float]:
    """Write ``decision_function`` if there is one, else the probability; also return its threshold, 0 or 1/2."""
    if hasattr(model, "decision_function"):
        return decision(graph, model, matrix), 0.0
    return probability(graph, model, matrix), 0.5


def margin(graph: GraphWriter, model: Any, matrix: str) -> str:
    """Write a column that is positive where ``predict`` returns the greater class.

    Except for the classes named here, it is based on the sign of the decision or on the greater probability.
    """
    match type(model).__name__:
        case "GaussianProcessClassifier":
            return _gaussian_process(graph, model, matrix)
        case "NearestCentroid":
            if not np.isclose(model.class_prior_, 0.5).all():
                return _nearest_centroid(graph, model, matrix)
            power = 1.0 if model.metric == "manhattan" else 2.0
            return graph("MatMul", powers(graph, matrix, model.centroids_, power), np.array([[1.0], [-1.0]]))
        case "VotingClassifier" if model.voting != "soft":
            margins = (margin(graph, voter, matrix) for voter in model.estimators_)
            votes = [graph.indicator(graph("Greater", value, 0.0)) for value in margins]
            return graph("Sub", graph.mean(votes, model._weights_not_none), 0.5)
        case "VotingClassifier" | "BaggingClassifier":
            return graph("Sub", probability(graph, model, matrix), 0.5)
        case "OneVsRestClassifier" | "OneVsOneClassifier":
            return graph("Sub", *response(graph, model.estimators_[0], matrix))
        case "OutputCodeClassifier":
            return _output_code(graph, model, matrix)
        case "FixedThresholdClassifier" | "TunedThresholdClassifierCV":
            return _threshold(graph, model, matrix)
        case "SelfTrainingClassifier" | "StackingClassifier":
            inner = _inner(graph, model, matrix)
            assert inner is not None  # noqa: S101 - both of these have one
            return margin(graph, *inner)
    value, threshold = response(graph, model, matrix)
    return graph("Sub", value, threshold) if threshold else value


def prediction(graph: GraphWriter, model: Any, matrix: str) -> str:
    """Write ``predict``, with the classes as numbers."""
    lesser, greater = (float(label) for label in (model.classes_[0], model.classes_[-1]))
    return graph("Where", graph("Greater", margin(graph, model, matrix), 0.0), greater, lesser)


def _log(shares: Any) -> Any:
    return np.log(np.maximum(np.asarray(shares, dtype=np.float64), 1e-300))


def _log_odds(graph: GraphWriter, matrix: str, slopes: Any, constants: Any) -> str:
    factor = (slopes[1] - slopes[0]).reshape(-1, 1)
    return graph("Add", graph("MatMul", matrix, factor), float(constants[1] - constants[0]))


def _naive_bayes(graph: GraphWriter, model: Any, matrix: str) -> str:
    match type(model).__name__:
        case "GaussianNB":
            pairs = zip(model.theta_, model.var_, strict=True)
            halves = [graph("Div", graph.square(graph("Sub", matrix, mean)), 2.0 * var) for mean, var in pairs]
            constants = _log(model.class_prior_) - 0.5 * np.log(model.var_).sum(axis=1)
            return graph("Add", graph.sum(graph("Sub", *halves)), float(constants[1] - constants[0]))
        case "MultinomialNB":
            return _log_odds(graph, matrix, model.feature_log_prob_, model.class_log_prior_)
        case "ComplementNB":
            return _log_odds(graph, matrix, model.feature_log_prob_, (0.0, 0.0))
        case "BernoulliNB":
            if model.binarize is not None:
                matrix = graph.indicator(graph("Greater", matrix, float(model.binarize)))
            absent = _log(1.0 - np.exp(model.feature_log_prob_))
            constants = model.class_log_prior_ + absent.sum(axis=1)
            return _log_odds(graph, matrix, model.feature_log_prob_ - absent, constants)
    codes, terms = graph("Floor", matrix), []
    for column, table in enumerate(model.feature_log_prob_):
        value = graph.columns(codes, [column])
        hits = graph.indicator(graph("Equal", value, np.arange(table.shape[1], dtype=np.float64)))
        terms.append(graph("MatMul", hits, (table[1] - table[0]).reshape(-1, 1)))
    prior = float(model.class_log_prior_[1] - model.class_log_prior_[0])
    return graph("Add", graph.sum(graph.join(terms)), prior)


def _quadratic_discriminant(graph: GraphWriter, model: Any, matrix: str) -> str:
    scores = []
    parts = zip(model.means_, model.rotations_, model.scalings_, model.priors_, strict=True)
    for center, rotation, scaling, prior in parts:
        rotated = graph("MatMul", graph("Sub", matrix, center), rotation * scaling**-0.5)
        norm = graph.sum(graph.square(rotated))
        scores.append(graph("Add", graph("Mul", norm, -0.5), float(np.log(prior) - 0.5 * np.log(scaling).sum())))
    return graph("Sub", scores[1], scores[0])


def _multilayer_perceptron(graph: GraphWriter, model: Any, matrix: str) -> str:
    operators = {"relu": "Relu", "tanh": "Tanh", "logistic": "Sigmoid", "identity": None}
    layers = list(zip(model.coefs_, model.intercepts_, strict=True))
    for depth, (weights, bias) in enumerate(layers, start=1):
        matrix = graph("Add", graph("MatMul", matrix, weights), bias)
        operator = operators[model.activation] if depth < len(layers) else "Sigmoid"
        matrix = graph(operator, matrix) if operator else matrix
    return matrix


def _adaboost(graph: GraphWriter, model: Any, matrix: str) -> str:
    forest = forest_of(model, np.zeros((1, model.n_features_in_)))
    if forest is not None:
        # scikit-learn counts both classes: twice the mean of the signs.
        return graph("Mul", graph.trees(matrix, forest), 2.0 / float(model.estimator_weights_.sum()))
    votes = [prediction(graph, voter, matrix) for voter in model.estimators_]
    lesser, greater = (float(label) for label in model.classes_)
    share = graph.mean(votes, model.estimator_weights_[: len(votes)].tolist())
    return graph("Mul", graph("Sub", share, (greater + lesser) / 2), 4.0 / (greater - lesser))


def _bagging(graph: GraphWriter, model: Any, matrix: str) -> str:
    shares = []
    for bag, features in zip(model.estimators_, model.estimators_features_, strict=True):
        columns = graph.columns(matrix, features)
        if hasattr(bag, "predict_proba"):
            shares.append(probability(graph, bag, columns))
        else:
            shares.append(graph.indicator(graph("Greater", margin(graph, bag, columns), 0.0)))
    return graph.mean(shares)


MAX_DIFFERENCES = 1 << 17
"""Number of points times features above which Euclidean distances are computed by one matrix product."""


def squared(graph: GraphWriter, matrix: str, points: Any) -> str:
    """Write squared Euclidean distances to points, by the definition unless that would be too much work."""
    points = np.asarray(points, dtype=np.float64)
    if points.size <= MAX_DIFFERENCES:
        return powers(graph, matrix, points, 2.0)
    norms = graph("ReduceSumSquare", matrix, np.array([1]))
    products = graph("MatMul", matrix, -2.0 * points.T)
    return graph("Max", graph("Add", graph("Add", products, (points**2).sum(axis=1)), norms), 0.0)


def powers(graph: GraphWriter, matrix: str, points: Floats, power: float) -> str:
    """Write the sum over features of |x_j - t_j|^p (for infinite p the greatest |x_j - t_j|), a column per point t."""
    total = ""
    for feature, column in enumerate(points.T):
        difference = graph("Sub", graph.columns(matrix, np.array([feature])), column)
        term = graph.square(difference) if power == 2.0 else graph("Abs", difference)
        term = term if power in (1.0, 2.0, np.inf) else graph("Pow", term, power)
        total = graph("Max" if power == np.inf else "Add", total, term) if total else term
    return total


def _distances(graph: GraphWriter, matrix: str, metric: str, parameters: Any, points: Any) -> str:
    power = {"euclidean": 2.0, "manhattan": 1.0, "chebyshev": np.inf}.get(metric)
    if metric == "minkowski" and (parameters or {}).get("w") is None:
        power = float((parameters or {})["p"])
    if power is None:
        raise Unwritable(f"distances of metric {metric!r}")
    if power == 2.0:
        return graph("Sqrt", squared(graph, matrix, points))
    total = powers(graph, matrix, np.asarray(points, dtype=np.float64), power)
    return total if power in (1.0, np.inf) else graph("Pow", total, 1.0 / power)


def _neighbor_weights(graph: GraphWriter, distances: str, weights: Any, neighbors: str | None) -> str:
    """Return each neighbour's weight: 1, or one over its distance; if any are at distance 0, only those count."""
    if weights in (None, "uniform"):
        return neighbors or graph.indicator(graph("GreaterOrEqual", distances, 0.0))
    if weights != "distance":
        raise Unwritable("weights that are a function")
    coincident = graph.indicator(graph("Equal", distances, 0.0))
    any_coincident = graph("Greater", graph("ReduceMax", coincident, np.array([1])), 0.0)
    inverse = graph("Where", any_coincident, coincident, graph("Reciprocal", distances))
    return inverse if neighbors is None else graph("Mul", inverse, neighbors)


def _weighted_share(graph: GraphWriter, weights: str, positive: str) -> str:
    return graph("Div", graph.sum(graph("Mul", weights, positive)), graph.sum(weights))


def _nearest_neighbors(graph: GraphWriter, model: Any, matrix: str) -> str:
    # The points have no public name in scikit-learn; the agreement test on the draws guards against changes.
    distances = _distances(graph, matrix, model.effective_metric_, model.effective_metric_params_, model._fit_X)
    near, indices = graph.several("TopK", 2, distances, np.array([model.n_neighbors]), axis=1, largest=0, sorted=1)
    positive = graph("Gather", model._y.ravel().astype(np.float64), indices, axis=0)
    return _weighted_share(graph, _neighbor_weights(graph, near, model.weights, None), positive)


def _radius_neighbors(graph: GraphWriter, model: Any, matrix: str) -> str:
    distances = _distances(graph, matrix, model.effective_metric_, model.effective_metric_params_, model._fit_X)
    neighbors = graph.indicator(graph("LessOrEqual", distances, float(model.radius)))
    weights = _neighbor_weights(graph, distances, model.weights, neighbors)
    votes = graph("MatMul", weights, model._y.reshape(-1, 1).astype(np.float64))
    total = graph.sum(weights)
    # No neighbours: scikit-learn gives the outlier's label, or fails if none is set; then it is the lesser class.
    default = 0.0 if model.outlier_label_ is None else float(model.outlier_label_[0] == model.classes_[1])
    return graph("Where", graph("Greater", total, 0.0), graph("Div", votes, total), default)


def _label_propagation(graph: GraphWriter, model: Any, matrix: str) -> str:
    shares = np.nan_to_num(model.label_distributions_)
    if model.kernel == "rbf":
        kernel = graph("Exp", graph("Mul", squared(graph, matrix, model.X_), -float(model.gamma)))
        votes, total = (graph("MatMul", kernel, column.reshape(-1, 1)) for column in (shares[:, 1], shares.sum(axis=1)))
        return graph("Div", votes, total)
    count = np.array([model.n_neighbors])
    index = graph.several("TopK", 2, squared(graph, matrix, model.X_), count, axis=1, largest=0, sorted=1)[1]
    votes, total = (graph.sum(graph("Gather", column, index, axis=0)) for column in (shares[:, 1], shares.sum(axis=1)))
    return graph("Div", votes, total)


def _kernel_machine(graph: GraphWriter, model: Any, matrix: str) -> str:
    points = np.asarray(model.support_vectors_, dtype=np.float64)
    if model.kernel not in ("linear", "poly", "rbf", "sigmoid"):
        raise Unwritable(f"kernel {model.kernel!r}")
    width = float(model._gamma)
    if model.kernel == "rbf":
        kernel = graph("Exp", graph("Mul", squared(graph, matrix, points), -width))
    else:
        kernel = graph("MatMul", matrix, points.T)
    if model.kernel in ("poly", "sigmoid"):
        kernel = graph("Add", graph("Mul", kernel, width), float(model.coef0))
        kernel = graph("Tanh", kernel) if model.kernel == "sigmoid" else graph("Pow", kernel, float(model.degree))
    return graph("Add", graph("MatMul", kernel, model.dual_coef_.reshape(-1, 1)), float(model.intercept_[0]))


def _gaussian_process(graph: GraphWriter, model: Any, matrix: str) -> str:
    inner = model.base_estimator_
    kernel = inner.kernel_.get_params()
    if {type(kernel.get(part)).__name__ for part in ("k1", "k2")} != {"ConstantKernel", "RBF"}:
        raise Unwritable(f"kernel {inner.kernel_}")
    # A constant factor does not change the sign: only the RBF part matters.
    parts = (kernel["k1"], kernel["k2"])
    scale = np.asarray(next(part.length_scale for part in parts if hasattr(part, "length_scale")))
    similarity = graph("Exp", graph("Mul", squared(graph, graph("Div", matrix, scale), inner.X_train_ / scale), -0.5))
    return graph("MatMul", similarity, (inner.y_train_ - inner.pi_).reshape(-1, 1))


def _nearest_centroid(graph: GraphWriter, model: Any, matrix: str) -> str:
    spread = np.where(model.within_class_std_dev_ != 0, model.within_class_std_dev_, 1.0)
    power = 1.0 if model.metric == "manhattan" else 2.0
    total = powers(graph, graph("Div", matrix, spread), model.centroids_ / spread, power)
    scores = graph("Sub", 2.0 * np.log(model.class_prior_), graph.square(total) if power == 1.0 else total)
    return graph("MatMul", scores, np.array([[-1.0], [1.0]]))


def _calibrated(graph: GraphWriter, model: Any, matrix: str) -> str:
    value, threshold = response(graph, model.estimator, matrix)
    calibrator = model.calibrators[0]
    if model.method == "sigmoid":
        return graph("Sigmoid", graph("Sub", graph("Mul", value, -float(calibrator.a_)), float(calibrator.b_)))
    if model.method == "isotonic":
        # Linear interpolation between the thresholds, constant outside, as a sum of ramps.
        thresholds, heights = np.asarray(calibrator.X_thresholds_), np.asarray(calibrator.y_thresholds_)
        if len(thresholds) == 1:
            return graph.column(float(heights[0]))
        lengths = np.diff(thresholds)
        ramps = graph("Min", graph("Max", graph("Sub", value, thresholds[:-1]), 0.0), lengths)
        return graph("Add", graph("MatMul", ramps, (np.diff(heights) / lengths).reshape(-1, 1)), float(heights[0]))
    if threshold:
        offset = 1e-12
        opposite = graph("Log", graph("Add", graph("Sub", graph.column(1.0), value), offset))
        odds = graph("Sub", graph("Log", graph("Add", value, offset)), opposite)
        return graph("Sigmoid", graph("Mul", odds, float(calibrator.beta_)))
    return graph("Sigmoid", graph("Mul", value, 2.0 * float(calibrator.beta_)))


def _output_code(graph: GraphWriter, model: Any, matrix: str) -> str:
    answers = []
    for column, inner in zip(model.code_book_.T, model.estimators_, strict=True):
        # A column of the code with a single value was learned as that constant.
        constant = float(column[0] > 0) if column[0] == column[1] else None
        answers.append(response(graph, inner, matrix)[0] if constant is None else graph.column(constant))
    distances = powers(graph, graph.join(answers), model.code_book_, 2.0)
    return graph("MatMul", distances, np.array([[1.0], [-1.0]]))


def _threshold(graph: GraphWriter, model: Any, matrix: str) -> str:
    method = model.response_method
    if method == "auto":
        method = "predict_proba" if hasattr(model.estimator_, "predict_proba") else "decision_function"
    write = {"predict_proba": probability, "decision_function": decision}[method]
    threshold = getattr(model, "best_threshold_", None)
    if threshold is None:
        threshold = model.threshold
        threshold = (0.5 if method == "predict_proba" else 0.0) if threshold == "auto" else threshold
    if getattr(model, "pos_label", None) not in (None, model.classes_[1]):
        raise Unwritable("a positive label other than 1")
    # At the threshold the prediction is the greater class.
    above = graph("GreaterOrEqual", write(graph, model.estimator_, matrix), float(threshold))
    return graph.indicator(above)
