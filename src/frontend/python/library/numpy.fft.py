"""What numpy's module of Fourier transforms has for real numbers. ops.DFT transforms, numbers being pairs along the last axis."""


def _axes_to_shift(x, axes): return tuple(range(x.ndim)) if axes is None else numpy._each_of(axes)


def fftshift(x, axes=None):
    axes = _axes_to_shift(x, axes)
    return numpy.roll(x, tuple([x.shape[axis] // 2 for axis in axes]), axes)


def ifftshift(x, axes=None):
    axes = _axes_to_shift(x, axes)
    return numpy.roll(x, tuple([-(x.shape[axis] // 2) for axis in axes]), axes)


def fftfreq(n, d=1.0): return ifftshift(numpy.arange(n) - n // 2) / (n * d)
def rfftfreq(n, d=1.0): return numpy.arange(n // 2 + 1) / (n * d)
