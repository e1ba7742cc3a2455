"""Functions of Python's module functools."""


def reduce(function, iterable, *initial):
    if len(initial) > 0:
        return _folded(function, iterable, initial[0])
    if isinstance(iterable, (list, tuple, numpy.ndarray)):
        return _folded(function, iterable[1:], iterable[0])
    items = iter(iterable)
    return _folded(function, items, next(items))


def _folded(function, items, value):
    for item in items:
        value = function(value, item)
    return value


def partial(function, /, *arguments, **keywords):
    def applied(*more, **others):
        return function(*arguments, *more, **{**keywords, **others})

    return applied
