"""Operators on strings."""
import numpy as np

from case import Case, shape

WORDS = ["", "a", "Monday", "monday", "TUESDAY", "a b  c", " lead", "x,y,,z", "Straße", "éÀ", "1.5", "12", "ab12"]


def words(rng, dims):
    return np.array([rng.choice(WORDS) for _ in range(int(np.prod(dims, dtype=np.int64)))], dtype=object).reshape(dims)


def string_concat(rng):
    dims = shape(rng)
    parts = [words(rng, [1 if rng.random() < 0.3 else d for d in dims][rng.randint(0, len(dims)):]) for _ in range(2)]
    return Case("StringConcat", parts)


def string_split(rng):
    attributes = {} if rng.random() < 0.4 else {"delimiter": rng.choice([",", " ", "a"])}
    if rng.random() < 0.4:
        attributes["maxsplit"] = rng.randint(1, 2)
    # ONNX Runtime finds no part in an empty string, onnx's reference one.
    return Case("StringSplit", [words(rng, shape(rng, 1, 3, zero=0))], attributes, 2, reference=True)


def regex_full_match(rng):
    return Case("RegexFullMatch", [words(rng, shape(rng))], {"pattern": rng.choice([r"[a-z]+", r".*\d", r"\w+", r"(a|Mon).*", r"\s*"])})


def string_normalizer(rng):
    dims = rng.choice([(rng.randint(1, 6),), (1, rng.randint(1, 6))])
    attributes = {"case_change_action": rng.choice(["NONE", "LOWER", "UPPER"]), "is_case_sensitive": 1}
    if rng.random() < 0.7:
        attributes["stopwords"] = rng.sample(["monday", "Monday", "a", "TUESDAY"], 2)
    ascii_words = [w for w in WORDS if w.isascii() and w and " " not in w]
    x = np.array([rng.choice(ascii_words) for _ in range(int(np.prod(dims)))], dtype=object).reshape(dims)
    # ONNX Runtime needs a locale that is not everywhere.
    return Case("StringNormalizer", [x], attributes, reference=True)


def tf_idf_vectorizer(rng):
    x = np.array([rng.randint(0, 4) for _ in range(12)], dtype=rng.choice(["int32", "int64"])).reshape(rng.choice([(12,), (2, 6), (3, 4)]))
    unigrams, bigrams = [0, 2, 3], [0, 1, 2, 2, 1, 3, 4, 0]
    order = list(range(len(unigrams) + len(bigrams) // 2))
    rng.shuffle(order)
    attributes = {"mode": rng.choice(["TF", "IDF", "TFIDF"]), "min_gram_length": 1, "max_gram_length": 2,
                  "max_skip_count": rng.randint(0, 3), "ngram_counts": [0, len(unigrams)], "ngram_indexes": order,
                  "pool_int64s": unigrams + bigrams}
    if rng.random() < 0.5:
        attributes["weights"] = [round(rng.uniform(0.5, 3), 2) for _ in order]
    return Case("TfIdfVectorizer", [x], attributes)


GENERATORS = {
    "StringConcat": string_concat, "StringSplit": string_split, "RegexFullMatch": regex_full_match,
    "StringNormalizer": string_normalizer, "TfIdfVectorizer": tf_idf_vectorizer,
}
