"""Operators of ai.onnx.ml."""
import numpy as np

from case import Case, data, ints, reals, shape

FEATURES = ["float32", "float64", "int64", "int32"]
# PROBIT is left out: ONNX Runtime's is undefined outside probabilities.
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]


def ml(op, inputs, attributes, outputs=1):
    return Case(op, inputs, attributes, outputs, "ai.onnx.ml")


def rows(rng, features, dtypes=("float32",)):
    dtype = rng.choice(dtypes)
    dims = rng.choice([(rng.randint(1, 5), features)] * 4 + [(features,)])
    return reals(rng, dims, dtype) if dtype.startswith("float") else data(rng, dims, dtype)


def floats(rng, count):
    return [round(rng.uniform(-1.5, 1.5), 3) for _ in range(count)]


def labels(rng, count, integers="classlabels_ints"):
    if rng.random() < 0.5:
        return {"classlabels_strings": [f"class{i}" for i in range(count)]}
    return {integers: [10 * i + 3 for i in range(count)]}


def label_encoder(rng):
    keys, values = rng.choice(["int64s", "strings", "floats"]), rng.choice(["int64s", "strings", "floats"])
    lists = {"int64s": lambda: list(range(5)), "strings": lambda: [f"s{i}" for i in range(5)], "floats": lambda: [0.5, 1.0, float("nan"), 3.0, 4.0]}
    table = lists[values]()
    if values == "floats":
        table[2] = 9.0
    drawn = [rng.choice(lists[keys]() + {"int64s": [77], "strings": ["?"], "floats": [7.5]}[keys]) for _ in range(12)]
    x = np.array(drawn, dtype={"int64s": np.int64, "strings": object, "floats": np.float32}[keys])
    defaults = {"int64s": {"default_int64": 42}, "strings": {"default_string": "none"}, "floats": {"default_float": 0.25}}
    return ml("LabelEncoder", [x.reshape(rng.choice([(12,), (3, 4)]))], {f"keys_{keys}": lists[keys](), f"values_{values}": table} |
              (defaults[values] if rng.random() < 0.5 else {}))


def category_mapper(rng):
    table = {"cats_int64s": [1, 2, 3], "cats_strings": ["a", "b", "c"], "default_int64": -7, "default_string": "unknown"}
    x = data(rng, shape(rng, 1), "int64") % 5 if rng.random() < 0.5 else np.array([rng.choice("abcd") for _ in range(6)], dtype=object)
    return ml("CategoryMapper", [x], table)


def one_hot_encoder(rng):
    if rng.random() < 0.3:
        return ml("OneHotEncoder", [np.array([rng.choice("abcd") for _ in range(6)], dtype=object).reshape(2, 3)], {"cats_strings": ["a", "b", "c"]})
    x = np.array([rng.randint(0, 4) for _ in range(6)], dtype=rng.choice(FEATURES)).reshape(rng.choice([(6,), (2, 3)]))
    return ml("OneHotEncoder", [x], {"cats_int64s": [0, 1, 3]})


def binarizer(rng):
    return ml("Binarizer", [reals(rng, shape(rng))], {"threshold": 0.3})


def imputer(rng):
    x = rows(rng, 3)
    x = np.where(data(rng, x.shape, "bool"), x, np.float32(rng.choice([np.nan, 1.0])))
    return ml("Imputer", [x], {"imputed_value_floats": floats(rng, rng.choice([1, 3])), "replaced_value_float": rng.choice([1.0, float("nan")])})


def scaler(rng):
    count = rng.choice([1, 4])
    return ml("Scaler", [rows(rng, 4, FEATURES)], {"offset": floats(rng, count), "scale": floats(rng, count)})


def normalizer(rng):
    x = rows(rng, 4, FEATURES)
    return ml("Normalizer", [np.where(rng.random() < 0.2, np.zeros_like(x), x)], {"norm": rng.choice(["MAX", "L1", "L2"])})


def array_feature_extractor(rng):
    x = data(rng, shape(rng, 1, 3, zero=0), rng.choice([*FEATURES, "str"]))
    return ml("ArrayFeatureExtractor", [x, ints([rng.randrange(x.shape[-1]) for _ in range(rng.randint(1, 4))])], {})


def feature_vectorizer(rng):
    dtype = rng.choice(FEATURES)
    widths = [rng.randint(1, 3) for _ in range(rng.randint(1, 3))]
    count = rng.randint(1, 4)
    return ml("FeatureVectorizer", [data(rng, (count, w), dtype) for w in widths], {"inputdimensions": widths})


def linear_regressor(rng):
    targets = rng.randint(1, 3)
    return ml("LinearRegressor", [rows(rng, 3)],
              {"coefficients": floats(rng, 3 * targets), "targets": targets, "post_transform": rng.choice(TRANSFORMS)} |
              ({"intercepts": floats(rng, targets)} if rng.random() < 0.7 else {}))


def linear_classifier(rng):
    targets = rng.randint(1, 4)
    return ml("LinearClassifier", [rows(rng, 3, FEATURES)],
              {"coefficients": floats(rng, 3 * targets), "intercepts": floats(rng, targets), "post_transform": rng.choice(TRANSFORMS)} |
              labels(rng, max(targets, 2)), 2)


def svm(rng):
    return {"kernel_type": rng.choice(["LINEAR", "POLY", "RBF", "SIGMOID"]), "kernel_params": [0.3, 0.2, 2.0]}


def svm_regressor(rng):
    count = rng.randint(1, 4)
    return ml("SVMRegressor", [rows(rng, 3)], svm(rng) | {"n_supports": count, "support_vectors": floats(rng, 3 * count), "coefficients": floats(rng, count),
                                                          "rho": floats(rng, 1), "one_class": int(rng.random() < 0.2)})


def svm_classifier(rng):
    classes = rng.randint(2, 4)
    per_class = [rng.randint(1, 3) for _ in range(classes)]
    total, pairs = sum(per_class), classes * (classes - 1) // 2
    # As in a trained machine, coefficients have both signs.
    attributes = svm(rng) | labels(rng, classes) | {
        "vectors_per_class": per_class, "support_vectors": floats(rng, 3 * total), "coefficients": [-0.4, *floats(rng, (classes - 1) * total - 1)],
        "rho": floats(rng, pairs), "post_transform": rng.choice(TRANSFORMS)}
    if rng.random() < 0.4:
        attributes |= {"prob_a": [-abs(a) for a in floats(rng, pairs)], "prob_b": floats(rng, pairs)}
    return ml("SVMClassifier", [rows(rng, 3)], attributes, 2)


def forest(rng, votes, targets):
    """Full trees of depth two; every leaf votes for every target, so that none is without a score."""
    nodes = {key: [] for key in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true")}
    cast = {key: [] for key in ("treeids", "nodeids", "ids", "weights")}
    mode = rng.choice(["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"])
    for tree in range(rng.randint(1, 4)):
        for node in range(7):
            leaf = node > 2
            row = (tree, node, rng.randrange(3), round(rng.uniform(-1, 1), 2), "LEAF" if leaf else mode,
                   0 if leaf else 2 * node + 1, 0 if leaf else 2 * node + 2, rng.randint(0, 1))
            for key, value in zip(nodes, row):
                nodes[key].append(value)
            for target in range(targets if leaf else 0):
                for key, value in zip(cast, (tree, node, target, round(rng.uniform(-1, 1), 3))):
                    cast[key].append(value)
    return {f"nodes_{key}": value for key, value in nodes.items()} | {f"{votes}_{key}": value for key, value in cast.items()}


def tree_ensemble_regressor(rng):
    targets = rng.randint(1, 3)
    x = rows(rng, 3)
    x = np.where(reals(rng, x.shape) > 1.5, np.float32(np.nan), x)
    return ml("TreeEnsembleRegressor", [x], forest(rng, "target", targets) |
              {"n_targets": targets, "aggregate_function": rng.choice(["SUM", "AVERAGE", "MIN", "MAX"]), "post_transform": rng.choice(TRANSFORMS)} |
              ({"base_values": floats(rng, targets)} if rng.random() < 0.5 else {}))


def tree_ensemble_classifier(rng):
    classes = rng.randint(2, 4)
    # Of two classes only one is voted for, as converters write it.
    attributes = forest(rng, "class", 1 if classes == 2 else classes)
    if classes == 2 and rng.random() < 0.5:
        attributes["class_weights"] = [abs(w) / 3 for w in attributes["class_weights"]]
    attributes |= {"post_transform": rng.choice(TRANSFORMS)} | labels(rng, classes, "classlabels_int64s")
    if classes > 2 and rng.random() < 0.5:
        attributes["base_values"] = floats(rng, classes)
    return ml("TreeEnsembleClassifier", [rows(rng, 3, FEATURES)], attributes, 2)


GENERATORS = {
    "LabelEncoder": label_encoder, "CategoryMapper": category_mapper, "OneHotEncoder": one_hot_encoder, "Binarizer": binarizer,
    "Imputer": imputer, "Scaler": scaler, "Normalizer": normalizer, "ArrayFeatureExtractor": array_feature_extractor,
    "FeatureVectorizer": feature_vectorizer, "LinearRegressor": linear_regressor, "LinearClassifier": linear_classifier,
    "SVMRegressor": svm_regressor, "SVMClassifier": svm_classifier, "TreeEnsembleRegressor": tree_ensemble_regressor,
    "TreeEnsembleClassifier": tree_ensemble_classifier,
}
