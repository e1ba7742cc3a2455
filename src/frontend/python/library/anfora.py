"""Derivatives made of anfora.grad, which is the compiler's own: python/anfora/_grad.py says what each returns. And list() and `in`."""


def _inner_product(tree, other):
    parts = []
    anfora.tree_map(lambda a, b: None if a is None or b is None else parts.append(numpy.sum(a * b)), tree, other)
    total = 0.0
    for part in parts:
        total = total + part
    return total


def vjp(function, *primals):
    def pullback(sensitivities):
        def weighted(*arguments):
            return _inner_product(function(*arguments), sensitivities)

        return anfora.grad(weighted, tuple(range(len(primals))))(*primals)

    return function(*primals), pullback


# Reverse mode twice: the pullback is linear in the sensitivities, so that its gradient by them does not depend on where it is taken.
def jvp(function, primals, tangents):
    value, pullback = vjp(function, *primals)

    def along(sensitivities):
        return _inner_product(pullback(sensitivities), tuple(tangents))

    return value, anfora.grad(along)(anfora.tree_map(lambda y: y * 0, value))


def _unit(i, like): return (numpy.arange(like.size) == i).astype(like.dtype).reshape(like.shape)


def jacobian(function, argnum=0):
    def of_arguments(*arguments):
        x = numpy.asarray(arguments[argnum])

        def by_argument(v):
            return numpy.asarray(function(*[v if i == argnum else arguments[i] for i in range(len(arguments))]))

        y, pullback = vjp(by_argument, x)
        matrix = numpy.zeros((y.size, x.size), y.dtype)
        if y.size <= x.size:
            for i in range(y.size):
                matrix[i] = pullback(_unit(i, y))[0].reshape(-1)
        else:
            for i in range(x.size):
                matrix[:, i] = jvp(by_argument, (x,), (_unit(i, x),))[1].reshape(-1)
        return matrix.reshape(y.shape + x.shape)

    return of_arguments


def hessian(function, argnum=0): return jacobian(anfora.grad(function, argnum), argnum)


def _list_of(items):
    """list(items), where a run decides how many there are."""
    return [item for item in items]


def _contains(items, wanted):
    """wanted in items, where only a run knows how many there are."""
    for item in items:
        if item == wanted:
            return True
    return False
