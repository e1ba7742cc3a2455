"""Methods of Counter."""


def _most_common(counts, n=None):
    return sorted(counts.items(), key=lambda pair: pair[1], reverse=True)[:n]


def _total(counts): return sum(counts.values())
