"""Methods of tensors: x.sum(axis=0) is sum(x, axis=0)."""


def sum(self, axis=None, dtype=None, keepdims=False): return numpy.sum(self, axis, dtype, keepdims)
def prod(self, axis=None, dtype=None, keepdims=False): return numpy.prod(self, axis, dtype, keepdims)
def mean(self, axis=None, keepdims=False): return numpy.mean(self, axis, keepdims)
def var(self, axis=None, ddof=0, keepdims=False): return numpy.var(self, axis, ddof, keepdims)
def std(self, axis=None, ddof=0, keepdims=False): return numpy.std(self, axis, ddof, keepdims)
def max(self, axis=None, keepdims=False): return numpy.max(self, axis, keepdims)
def min(self, axis=None, keepdims=False): return numpy.min(self, axis, keepdims)
def any(self, axis=None, keepdims=False): return numpy.any(self, axis, keepdims)
def all(self, axis=None, keepdims=False): return numpy.all(self, axis, keepdims)
def argmax(self, axis=None, keepdims=False): return numpy.argmax(self, axis, keepdims)
def argmin(self, axis=None, keepdims=False): return numpy.argmin(self, axis, keepdims)
def cumsum(self, axis=None): return numpy.cumsum(self, axis)
def argsort(self, axis=-1): return numpy.argsort(self, axis)
def astype(self, dtype): return anfora.cast(self, dtype)
def copy(self, order='C'): return numpy.copy(self)
def dot(self, other): return numpy.dot(self, other)
def clip(self, min=None, max=None): return numpy.clip(self, min, max)
def round(self, decimals=0): return numpy.round(self, decimals)
def ravel(self): return numpy.ravel(self)
def flatten(self): return numpy.ravel(self)
def squeeze(self, axis=None): return numpy.squeeze(self, axis)
def swapaxes(self, axis1, axis2): return numpy.swapaxes(self, axis1, axis2)
def repeat(self, repeats, axis=None): return numpy.repeat(self, repeats, axis)
def take(self, indices, axis=None): return numpy.take(self, indices, axis)
def trace(self): return numpy.trace(self)
def nonzero(self): return numpy.nonzero(self)
def size(self): return numpy.size(self)
def T(self): return numpy.transpose(self)
def item(self): return float(self) if numpy._is_floating(self) else (bool(self) if self.dtype == numpy.bool_ else int(self))


def reshape(self, *shape):
    return numpy.reshape(self, shape[0] if len(shape) == 1 else shape)


def transpose(self, *axes):
    if len(axes) == 0:
        return numpy.transpose(self)
    return numpy.transpose(self, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)


def __getitem__(self, index): return self[index]


def __setitem__(self, index, value):
    changed = self.copy()
    changed[index] = value
    return changed


def __array_namespace__(self, api_version=None): return numpy
