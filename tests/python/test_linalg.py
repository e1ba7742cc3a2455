"""numpy.linalg and numpy.fft: compiled, on tensors and in numpy, where the results are the same; errors."""

import anfora
import anfora.numpy as xp
import numpy as np
import pytest

RANDOM = np.random.default_rng(3)
TOLERANCE = {np.float64: 1e-9, np.float32: 2e-4}


def drawn(*shape):
    return RANDOM.uniform(-1, 1, shape)


def definite(*shape):
    a = drawn(*shape)
    return a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1])


def leaves(value):
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, (tuple, list)) else [np.asarray(value)]


def same(expected, found, tolerance):
    expected, found = leaves(expected), leaves(found)
    assert len(expected) == len(found)
    for a, b in zip(expected, found):
        assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, b.shape, a.dtype, b.dtype)
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)


def up_to_signs(axis):
    """Vectors along the axis, of which the sign is not determined: each with a positive largest element."""

    def normal(vectors):
        vectors = np.asarray(vectors)
        largest = np.take_along_axis(vectors, np.argmax(np.abs(vectors), axis, keepdims=True), axis)
        return vectors * np.sign(largest)

    return normal


MATRICES = [drawn(3, 3), drawn(2, 4, 4), drawn(2, 3, 5, 5), definite(40, 40), drawn(0, 0), drawn(0, 3, 3)]
ANY_MATRICES = [drawn(3, 3), drawn(5, 3), drawn(2, 3, 5), drawn(40, 30), drawn(3, 0), drawn(0, 2, 3)]
EQUATIONS = [(drawn(3, 3), drawn(3)), (drawn(3, 3), drawn(3, 2)), (drawn(2, 4, 4), drawn(2, 4, 1)), (drawn(2, 1, 4, 4), drawn(3, 4, 2)),
             (drawn(4, 4), drawn(5, 4, 2)), (drawn(3, 4, 4), drawn(4)), (definite(60, 60), drawn(60, 60))]

CASES = {
    "solve": (lambda a, b: np.linalg.solve(a, b), EQUATIONS),
    "inv": (lambda a: np.linalg.inv(a), MATRICES),
    "det": (lambda a: np.linalg.det(a), MATRICES),
    "slogdet": (lambda a: tuple(np.linalg.slogdet(a)), [*MATRICES, np.zeros((2, 2)), -np.eye(3)]),
    "cholesky": (lambda a: np.linalg.cholesky(a), [definite(3, 3), definite(2, 4, 4), definite(70, 70)]),
    "cholesky, upper": (lambda a: np.linalg.cholesky(np.triu(a), upper=True), [definite(3, 3), definite(2, 4, 4)]),
    "qr": (lambda a: tuple(np.linalg.qr(a)), ANY_MATRICES),
    "qr, complete": (lambda a: tuple(np.linalg.qr(a, mode="complete")), ANY_MATRICES),
    "qr, r": (lambda a: np.linalg.qr(a, "r"), ANY_MATRICES),
    "eigvalsh": (lambda a: np.linalg.eigvalsh(a), MATRICES),
    "eigvalsh, upper": (lambda a: np.linalg.eigvalsh(a, "U"), MATRICES),
    "singular values": (lambda a: np.linalg.svd(a, compute_uv=False), ANY_MATRICES),
    "pinv": (lambda a: np.linalg.pinv(a), [drawn(3, 3), drawn(5, 3), drawn(2, 3, 5), np.ones((4, 3))]),
    "pinv, rcond": (lambda a: np.linalg.pinv(a, rcond=0.3), [drawn(4, 3), drawn(2, 3, 3)]),
    "lstsq": (lambda a, b: np.linalg.lstsq(a, b, rcond=None), [(drawn(5, 3), drawn(5)), (drawn(5, 3), drawn(5, 2)), (drawn(3, 5), drawn(3)), (np.ones((4, 2)), drawn(4))]),
    "matrix_rank": (lambda a: np.linalg.matrix_rank(a), [drawn(3, 3), np.ones((4, 3)), np.zeros((2, 3, 3))]),
    "matrix_power": (lambda a: (np.linalg.matrix_power(a, 3), np.linalg.matrix_power(a, 0), np.linalg.matrix_power(a, -2)), [definite(3, 3), definite(2, 3, 3)]),
    "multi_dot": (lambda a, b, c: np.linalg.multi_dot([a, b, c]), [(drawn(2, 3), drawn(3, 4), drawn(4, 5))]),
    "cond": (lambda a: (np.linalg.cond(a), np.linalg.cond(a, -2), np.linalg.cond(a, 1), np.linalg.cond(a, np.inf)), [definite(3, 3), definite(2, 3, 3)]),
    "norms": (lambda a: tuple(np.linalg.norm(a, ord, (-2, -1)) for ord in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)), [drawn(3, 4), drawn(2, 4, 3)]),
    "norms, axes kept": (lambda a: tuple(np.linalg.norm(a, ord, (0, 2), keepdims=True) for ord in ("fro", "nuc", 1, -1, 2, np.inf)), [drawn(2, 4, 3)]),
    "norms of vectors": (lambda a: tuple(np.linalg.norm(a, ord, -1) for ord in (None, 0, 1, 2, 3, np.inf, -np.inf)), [drawn(4), drawn(2, 4)]),
    "shifts": (lambda a: (np.fft.fftshift(a), np.fft.ifftshift(a), np.fft.fftshift(a, 0), np.fft.ifftshift(a, axes=(0, 1))), [drawn(4, 5), drawn(3, 2)]),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_as_numpy(name, dtype):
    function, inputs = CASES[name]
    compiled = anfora.jit(function)
    for given in inputs:
        arrays = [a.astype(dtype) for a in (given if isinstance(given, tuple) else (given,))]
        expected = function(*arrays)
        same(expected, compiled(*arrays), TOLERANCE[dtype])
        same(expected, function(*map(xp.asarray, arrays)), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_vectors(dtype):
    columns, rows, tolerance = up_to_signs(-2), up_to_signs(-1), TOLERANCE[dtype]
    eigh = anfora.jit(lambda a: np.linalg.eigh(a))
    svd, full_svd = anfora.jit(lambda a: np.linalg.svd(a, full_matrices=False)), anfora.jit(lambda a: np.linalg.svd(a))
    for a in (definite(4, 4), definite(2, 3, 6, 6), definite(50, 50)):
        values, vectors = eigh(a.astype(dtype))
        expected = np.linalg.eigh(a.astype(dtype))
        same((expected[0], columns(expected[1])), (values, columns(vectors)), 10 * tolerance)
    for a in (drawn(3, 5), drawn(2, 5, 3), drawn(4, 4), drawn(40, 25)):
        u, s, vh = svd(a.astype(dtype))
        expected = np.linalg.svd(a.astype(dtype), full_matrices=False)
        same((columns(expected[0]), expected[1], rows(expected[2])), (columns(u), s, rows(vh)), 10 * tolerance)
        np.testing.assert_allclose((u * s[..., None, :]) @ vh, a, atol=10 * tolerance)
        u, s, vh = full_svd(a.astype(dtype))
        k = s.shape[-1]
        np.testing.assert_allclose(np.swapaxes(u, -1, -2) @ u, np.broadcast_to(np.eye(u.shape[-1]), np.swapaxes(u, -1, -2).shape[:-1] + u.shape[-1:]), atol=10 * tolerance)
        np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, atol=10 * tolerance)


def test_integers_are_floats():
    same(np.linalg.inv([[2, 1], [1, 1]]), anfora.jit(lambda a: np.linalg.inv(a))(np.array([[2, 1], [1, 1]])), 1e-12)


def test_repeated_values():
    same(np.linalg.eigvalsh(np.eye(4)), xp.linalg.eigh(xp.eye(4))[0], 1e-12)
    u, s, vh = xp.linalg.svd(xp.zeros((3, 2)))
    assert np.asarray(s).tolist() == [0, 0] and np.allclose(np.asarray(u.T @ u), np.eye(3))


@pytest.mark.parametrize("function, given, message", [
    (np.linalg.inv, np.ones((2, 2)), "Singular matrix"),
    (np.linalg.solve, (np.zeros((3, 2, 2)), np.ones((2, 1))), "Singular matrix"),
    (np.linalg.cholesky, -np.eye(2), "Matrix is not positive definite"),
    (np.linalg.eigvalsh, np.full((3, 3), np.nan), "Eigenvalues did not converge"),
    (np.linalg.svd, np.full((3, 3), np.nan), "SVD did not converge"),
])
def test_errors_are_numpys(function, given, message):
    given = given if isinstance(given, tuple) else (given,)
    with pytest.raises(np.linalg.LinAlgError, match=message):
        function(*given)
    for run in (anfora.jit(lambda *given: function(*given)), lambda *given: function(*map(xp.asarray, given))):
        with pytest.raises(ValueError, match=message):
            run(*given)


@pytest.mark.parametrize("function, given, message", [
    (np.linalg.inv, np.ones((2, 3)), "not square"),
    (np.linalg.det, np.ones(3), "matrices are needed"),
    (lambda a: np.linalg.norm(a, 3), np.ones((2, 2)), "this order is none of matrices"),
    (lambda a: np.linalg.qr(a, "economic"), np.ones((2, 2)), "mode='reduced', 'complete' and 'r'"),
    (np.linalg.eigvals, np.ones((2, 2)), "eigvals"),
    (np.fft.fft, np.ones(4), "fft"),
])
def test_what_is_not_there(function, given, message):
    with pytest.raises(anfora.Error, match=message):
        anfora.jit(lambda a: function(a))(given)


def test_no_onnx_form(tmp_path):
    model = anfora.jit(lambda a: np.linalg.cholesky(a)).lower(np.eye(3))
    with pytest.raises(anfora.UnsupportedError, match="operator Cholesky has no ONNX form"):
        model.save(tmp_path / "model.onnx")


def test_program_of_kalman():
    """Filters of many systems at once: factorizations inside a loop, with a gradient through it."""

    def likelihood(noise, observed):
        mean, covariance, total = np.zeros((3, 2)), np.eye(2) + np.zeros((3, 2, 2)), 0.0
        transition = np.array([[1.0, 0.1], [0.0, 0.9]])
        for i in range(observed.shape[0]):
            mean, covariance = mean @ transition.T, transition @ covariance @ transition.T + 0.1 * np.eye(2)
            spread = covariance + noise * np.eye(2)
            error = observed[i] - mean
            gain = np.linalg.solve(spread, covariance)
            total = total - 0.5 * np.sum(np.linalg.slogdet(spread)[1]) - 0.5 * np.sum(error * np.linalg.solve(spread, error[..., None])[..., 0])
            mean = mean + (np.swapaxes(gain, -1, -2) @ error[..., None])[..., 0]
            covariance = covariance - np.swapaxes(gain, -1, -2) @ covariance
        return total

    observed = drawn(20, 3, 2)
    value, slope = anfora.value_and_grad(likelihood)(0.5, observed)
    assert value == pytest.approx(likelihood(0.5, observed), rel=1e-9)
    assert slope == pytest.approx((likelihood(0.5 + 1e-6, observed) - likelihood(0.5 - 1e-6, observed)) / 2e-6, rel=1e-5)
