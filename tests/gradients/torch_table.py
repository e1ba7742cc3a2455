"""PyTorch's operators in those of ONNX, as text of the IR: a function for each name in op_db.

A function takes what PyTorch's does, and gives the text of its result, or a list of them. Tensors are parameters of the module.
"""

import math

import torch

TYPES = {torch.float64: "f64", torch.float32: "f32", torch.int64: "i64", torch.int32: "i32", torch.bool: "bool"}


class NotExpressed(Exception):
    """A sample that this table has no text for."""


class Text:
    """The parameters of the module that is written."""

    current = None

    def __init__(self):
        self.parameters, self.values, self.lines, self.places, self.kept = [], [], [], {}, []

    def __enter__(self):
        Text.current = self
        return self

    def __exit__(self, *_):
        Text.current = None

    def index(self, tensor):
        if tensor.dtype not in TYPES:
            raise NotExpressed(f"a tensor of {tensor.dtype}")
        if id(tensor) not in self.places:
            self.places[id(tensor)] = len(self.values)
            self.kept.append(tensor)
            self.parameters.append(f"%x{len(self.values)}: {TYPES[tensor.dtype]}[{', '.join(map(str, tensor.shape))}]")
            self.values.append(tensor.detach().contiguous().numpy())
        return self.places[id(tensor)]

    def label(self, tensor):
        return f"%x{self.index(tensor)}"

    def named(self, text):
        """A value that is used more than once."""
        self.lines.append(f"  %t{len(self.lines)} = {text}")
        return f"%t{len(self.lines) - 1}"


def literal(value):
    if isinstance(value, str):
        return value
    if isinstance(value, torch.Tensor):
        return Text.current.label(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(str(int(v)) for v in value) + "]" if value else "i64[0] []"
    if value is None:
        return "_"
    return str(value)


def attribute(value):
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return str(int(value))
    return "[" + ", ".join(map(str, value)) + "]" if isinstance(value, (list, tuple)) else str(value)


class Operators:
    """`o.Concat(a, b, axis=1)` is the text Concat(a, b){axis=1}, as a value of its own."""

    def __getattr__(self, name):
        def apply(*operands, outputs=1, **attributes):
            given = ", ".join(f"{k}={attribute(v)}" for k, v in attributes.items() if v is not None)
            number = f":{outputs}" if outputs > 1 else ""
            named = Text.current.named(f"{name}{number}({', '.join(map(literal, operands))})" + (f"{{{given}}}" if given else ""))
            return [f"{named}[{i}]" for i in range(outputs)] if outputs > 1 else named

        return apply


o = Operators()
TABLE = {}


def case(*names):
    def add(function):
        for name in names:
            TABLE[name] = function
        return function

    return add


def f(value):
    """An operand in f64."""
    if isinstance(value, torch.Tensor):
        if value.is_complex():
            raise NotExpressed("complex numbers")
        return Text.current.label(value) if value.dtype == torch.float64 else o.Cast(value, to=11)
    if isinstance(value, complex):
        raise NotExpressed("complex numbers")
    if isinstance(value, str):
        return value
    return f"f64[] {float(value)!r}"


def nothing(*_, **__):
    raise NotExpressed("an argument")


# Functions of one number --------------------------------------------------------------------------------------------------

for names, operator in {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan", "atanh": "Atanh", "ceil": "Ceil",
    "cos": "Cos", "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "floor": "Floor", "log": "Log", "neg": "Neg", "reciprocal": "Reciprocal",
    "round": "Round", "sigmoid": "Sigmoid", "sign": "Sign", "sgn": "Sign", "sin": "Sin", "sinh": "Sinh", "sqrt": "Sqrt", "tan": "Tan",
    "tanh": "Tanh", "nn.functional.relu": "Relu", "nn.functional.softsign": "Softsign", "nn.functional.mish": "Mish",
    "positive clone contiguous conj conj_physical resolve_conj resolve_neg real alias_copy double view_copy_none": "Identity",
}.items():
    for name in names.split():
        TABLE[name] = lambda x, *_, operator=operator, **__: getattr(o, operator)(x)

case("square")(lambda x: o.Mul(x, x))
case("trunc")(lambda x: o.Mul(o.Sign(x), o.Floor(o.Abs(x))))
case("frac")(lambda x: o.Sub(x, o.Mul(o.Sign(x), o.Floor(o.Abs(x)))))
case("exp2")(lambda x: o.Pow(f(2), x))
case("expm1")(lambda x: o.Sub(o.Exp(x), f(1)))
case("log10")(lambda x: o.Div(o.Log(x), f(math.log(10))))
case("log2")(lambda x: o.Div(o.Log(x), f(math.log(2))))
case("log1p")(lambda x: o.Log(o.Add(x, f(1))))
case("rsqrt")(lambda x: o.Reciprocal(o.Sqrt(x)))
case("erfc")(lambda x: o.Sub(f(1), o.Erf(x)))
case("deg2rad")(lambda x: o.Mul(x, f(math.pi / 180)))
case("rad2deg")(lambda x: o.Mul(x, f(180 / math.pi)))
case("special.ndtr")(lambda x: o.Mul(f(0.5), o.Add(f(1), o.Erf(o.Mul(x, f(math.sqrt(0.5)))))))
case("nn.functional.silu")(lambda x, **_: o.Swish(x))
case("nn.functional.hardswish")(lambda x, **_: o.HardSwish(x))
case("nn.functional.hardsigmoid")(lambda x, **_: o.HardSigmoid(x, alpha=1 / 6))
case("nn.functional.logsigmoid")(lambda x: o.Neg(o.Softplus(o.Neg(x))))
case("nn.functional.tanhshrink")(lambda x: o.Sub(x, o.Tanh(x)))
case("nn.functional.relu6")(lambda x, **_: o.Clip(x, f(0), f(6)))
case("nn.functional.elu")(lambda x, alpha=1.0, **_: o.Elu(x, alpha=alpha))
case("nn.functional.celu")(lambda x, alpha=1.0, **_: o.Celu(x, alpha=alpha))
case("nn.functional.selu")(lambda x, **_: o.Selu(x))
case("nn.functional.leaky_relu")(lambda x, negative_slope=0.01, **_: o.LeakyRelu(x, alpha=negative_slope))
case("nn.functional.hardtanh")(lambda x, min_val=-1.0, max_val=1.0, **_: o.Clip(x, f(min_val), f(max_val)))
case("nn.functional.hardshrink")(lambda x, lambd=0.5: o.Shrink(x, lambd=lambd))
case("nn.functional.softshrink")(lambda x, lambd=0.5: o.Shrink(x, lambd=lambd, bias=lambd))
case("nn.functional.threshold")(lambda x, threshold, value, **_: o.Where(o.Greater(x, f(threshold)), x, f(value)))
case("nn.functional.gelu")(lambda x, approximate="none": o.Gelu(x, approximate=approximate))


@case("nn.functional.softplus")
def softplus(x, beta=1, threshold=20):
    scaled = o.Mul(x, f(beta))
    return o.Where(o.Greater(scaled, f(threshold)), x, o.Div(o.Softplus(scaled), f(beta)))


@case("nn.functional.prelu")
def prelu(x, weight):
    if not x.dim():
        return o.PRelu(x, o.Reshape(weight, "i64[0] []"))
    return o.PRelu(x, o.Reshape(weight, [-1] + [1] * (x.dim() - 2)) if x.dim() > 1 else weight)


@case("nn.functional.glu")
def glu(x, dim=-1):
    a, b = o.Split(x, axis=dim, num_outputs=2, outputs=2)
    return o.Mul(a, o.Sigmoid(b))


@case("sinc")
def sinc(x):
    scaled = o.Mul(x, f(math.pi))
    is_zero = o.Equal(x, f(0))
    safe = o.Where(is_zero, f(1), scaled)
    return o.Where(is_zero, f(1), o.Div(o.Sin(safe), safe))


@case("nan_to_num")
def nan_to_num(x, nan=None, posinf=None, neginf=None):
    most = 1.7976931348623157e308
    x = o.Where(o.IsNaN(x), f(nan or 0), x)
    x = o.Where(o.Equal(x, f(math.inf)), f(most if posinf is None else posinf), x)
    return o.Where(o.Equal(x, f(-math.inf)), f(-most if neginf is None else neginf), x)


@case("logit")
def logit(x, eps=None):
    if eps is not None:
        x = o.Clip(x, f(eps), f(1 - eps))
    return o.Log(o.Div(x, o.Sub(f(1), x)))


@case("clamp")
def clamp(x, min=None, max=None):
    if any(isinstance(bound, torch.Tensor) for bound in (min, max)):
        low = x if min is None else o.Where(o.Less(x, f(min)), f(min), x)
        return low if max is None else o.Where(o.Greater(low, f(max)), f(max), low)
    return o.Clip(x, None if min is None else f(min), None if max is None else f(max))


# Pairs ----------------------------------------------------------------------------------------------------------------------

case("add")(lambda a, b, alpha=1: o.Add(f(a), o.Mul(f(b), f(alpha))))
case("sub")(lambda a, b, alpha=1: o.Sub(f(a), o.Mul(f(b), f(alpha))))
case("rsub")(lambda a, b, alpha=1: o.Sub(f(b), o.Mul(f(a), f(alpha))))
case("mul", "__rmul__")(lambda a, b: o.Mul(f(a), f(b)))
case("true_divide", "div.no_rounding_mode")(lambda a, b, rounding_mode=None: o.Div(f(a), f(b)))
case("div.floor_rounding")(lambda a, b, rounding_mode=None: o.Floor(o.Div(f(a), f(b))))
case("div.trunc_rounding")(lambda a, b, rounding_mode=None: TABLE["trunc"](o.Div(f(a), f(b))))
case("__radd__")(lambda a, b: o.Add(f(b), f(a)))
case("__rsub__")(lambda a, b: o.Sub(f(b), f(a)))
case("__rdiv__")(lambda a, b: o.Div(f(b), f(a)))
case("__rpow__")(lambda a, b: o.Pow(f(b), f(a)))
case("__rmod__")(lambda a, b: TABLE["remainder"](b, a))
case("pow", "float_power")(lambda a, b: o.Pow(f(a), f(b)))
case("fmod")(lambda a, b: o.Mod(f(a), f(b), fmod=1))
case("remainder")(lambda a, b: o.Sub(f(a), o.Mul(f(b), o.Floor(o.Div(f(a), f(b))))))
case("maximum", "max.binary", "fmax")(lambda a, b: o.Max(f(a), f(b)))
case("minimum", "min.binary", "fmin")(lambda a, b: o.Min(f(a), f(b)))
case("clamp_min")(lambda a, b: o.Max(f(a), f(b)))
case("clamp_max")(lambda a, b: o.Min(f(a), f(b)))
case("hypot")(lambda a, b: o.Sqrt(o.Add(o.Mul(a, a), o.Mul(b, b))))
case("ldexp")(lambda a, b: o.Mul(f(a), o.Pow(f(2), f(b))))
case("lerp")(lambda a, b, w: o.Add(f(a), o.Mul(f(w), o.Sub(f(b), f(a)))))
case("addcmul")(lambda x, a, b, value=1: o.Add(f(x), o.Mul(f(value), o.Mul(f(a), f(b)))))
case("addcdiv")(lambda x, a, b, value=1: o.Add(f(x), o.Mul(f(value), o.Div(f(a), f(b)))))
case("where")(lambda condition, a, b: o.Where(a, f(condition), f(b)))  # the sample's input is the first of the two


@case("logaddexp", "logaddexp2")
def logaddexp(a, b):
    most = o.Max(a, b)
    return o.Add(most, o.Log(o.Add(o.Exp(o.Sub(a, most)), o.Exp(o.Sub(b, most)))))


@case("logaddexp2")
def logaddexp2(a, b):
    scale = f(math.log(2))
    return o.Div(logaddexp(o.Mul(a, scale), o.Mul(b, scale)), scale)


@case("xlogy")
def xlogy(a, b):
    a, b = f(a), f(b)
    is_zero = o.Equal(a, f(0))
    return o.Where(is_zero, f(0), o.Mul(a, o.Log(o.Where(is_zero, f(1), b))))


# Reductions -----------------------------------------------------------------------------------------------------------------

def axes(x, dim):
    """As a list; none for all, which is empty for a number."""
    if dim is None or isinstance(dim, (list, tuple)) and not dim:
        return list(range(x.dim()))
    return [d % max(x.dim(), 1) for d in ([dim] if isinstance(dim, int) else dim)] if x.dim() else []


def reduction(operator):
    def reduced(x, dim=None, keepdim=False, dtype=None, mask=None, **others):
        if dtype not in (None, torch.float64) or mask is not None:
            raise NotExpressed("an argument")
        if x.dim() == 0:
            return getattr(o, operator)(o.Reshape(x, [1]), [0], keepdims=0)
        return getattr(o, operator)(x, axes(x, dim), keepdims=keepdim)

    return reduced


case("sum")(reduction("ReduceSum"))
case("mean")(reduction("ReduceMean"))
case("prod")(reduction("ReduceProd"))
case("amax", "max.reduction_no_dim")(reduction("ReduceMax"))
case("amin", "min.reduction_no_dim")(reduction("ReduceMin"))
case("logsumexp")(reduction("ReduceLogSumExp"))
case("nansum")(lambda x, dim=None, keepdim=False, **_: of_valid("ReduceSum", x, dim, keepdim))
case("nanmean")(lambda x, dim=None, keepdim=False, **_: o.Div(of_valid("ReduceSum", x, dim, keepdim), count_valid(x, dim, keepdim)))
case("aminmax")(lambda x, dim=None, keepdim=False: [TABLE["amin"](x, dim, keepdim), TABLE["amax"](x, dim, keepdim)])
case("trace")(lambda x: o.ReduceSum(o.Where(o.Equal(o.EyeLike(x), f(1)), x, f(0)), keepdims=0))


def reduced(operator, text, x, dim, keepdim):
    if x.dim() == 0:
        return getattr(o, operator)(o.Reshape(text, [1]), [0], keepdims=0)
    return getattr(o, operator)(text, axes(x, dim), keepdims=keepdim)


def of_valid(operator, x, dim, keepdim):
    return reduced(operator, o.Where(o.IsNaN(x), f(0), x), x, dim, keepdim)


def count_valid(x, dim, keepdim):
    return reduced("ReduceSum", o.Where(o.IsNaN(x), f(0), f(1)), x, dim, keepdim)


@case("max.reduction_with_dim", "min.reduction_with_dim")
def extreme(x, dim, keepdim=False, operator="ArgMax"):
    if x.dim() == 0:
        return o.Identity(x)
    taken = o.GatherElements(x, getattr(o, operator)(x, axis=dim), axis=dim)
    return taken if keepdim else o.Squeeze(taken, [dim])


case("min.reduction_with_dim")(lambda x, dim, keepdim=False: extreme(x, dim, keepdim, "ArgMin"))


def moments(x, dim=None, unbiased=True, keepdim=False, correction=None):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    correction = (1 if unbiased else 0) if correction is None else correction
    count = math.prod(x.shape[d] for d in axes(x, dim))
    mean = reduced("ReduceMean", f(x), x, dim, True) if x.dim() else f(x)
    centered = o.Sub(x, mean)
    total = reduced("ReduceSum", o.Mul(centered, centered), x, dim, keepdim)
    variance = o.Div(total, f(max(count - correction, 0)))
    return variance, reduced("ReduceMean", f(x), x, dim, keepdim)


for name, function in {
    "var": lambda v, m: v, "std": lambda v, m: o.Sqrt(v), "var_mean": lambda v, m: [v, m], "std_mean": lambda v, m: [o.Sqrt(v), m],
}.items():
    case(name, f"{name}.unbiased")(lambda *a, function=function, **k: function(*moments(*a, **k)))


@case("linalg.vector_norm", "norm", "norm.inf")
def vector_norm(x, ord=2, dim=None, keepdim=False, dtype=None, p=None):
    ord = p if p is not None else ord
    ord = 2 if ord in (None, "fro") else ord
    if dtype not in (None, torch.float64) or isinstance(ord, str):
        raise NotExpressed("an argument")
    ord = float(ord)
    if ord == math.inf:
        return reduced("ReduceMax", o.Abs(x), x, dim, keepdim)
    if ord == -math.inf:
        return reduced("ReduceMin", o.Abs(x), x, dim, keepdim)
    if ord == 1:
        return reduced("ReduceL1", f(x), x, dim, keepdim)
    if ord == 2:
        return reduced("ReduceL2", f(x), x, dim, keepdim)
    if ord == 0:
        raise NotExpressed("the number of elements other than 0")
    return o.Pow(reduced("ReduceSum", o.Pow(o.Abs(x), f(ord)), x, dim, keepdim), f(1 / ord))


@case("norm.fro")
def norm_fro(x, p="fro", dim=None, keepdim=False, dtype=None):
    return vector_norm(x, 2, dim, keepdim, dtype)


case("dist")(lambda a, b, p=2: vector_norm_of(o.Sub(a, b), p))


def vector_norm_of(text, p):
    flat = o.Reshape(text, [-1])
    if p == 2:
        return o.ReduceL2(flat, [0], keepdims=0)
    if p == 1:
        return o.ReduceL1(flat, [0], keepdims=0)
    raise NotExpressed(f"p = {p}")


for name, operator in {"softmax": "Softmax", "log_softmax": "LogSoftmax"}.items():
    for variant in (name, f"{name}.with_dtype"):
        TABLE[variant] = lambda x, dim, dtype=None, operator=operator, **_: (
            nothing() if dtype not in (None, torch.float64) else getattr(o, operator)(x, axis=dim) if x.dim() else
            o.Reshape(getattr(o, operator)(o.Reshape(x, [1])), "i64[0] []"))
case("nn.functional.softmin")(lambda x, dim, **_: o.Softmax(o.Neg(x), axis=dim) if x.dim() else nothing())


def cumulated(operator):
    return lambda x, dim, **_: getattr(o, operator)(x, dim) if x.dim() else o.Identity(x)


case("cumsum")(cumulated("CumSum"))
case("cumprod")(cumulated("CumProd"))


@case("sort", "msort")
def sort(x, dim=-1, descending=False, stable=False):
    if x.dim() == 0:
        return o.Identity(x)
    return o.TopK(x, [x.shape[dim]], axis=dim, largest=descending, outputs=2)[0]


case("msort")(lambda x: sort(x, 0))


@case("topk")
def topk(x, k, dim=-1, largest=True, sorted=True):
    if x.dim() == 0:
        return o.Identity(x)
    return o.TopK(x, [k], axis=dim, largest=largest, outputs=2)[0]


@case("kthvalue")
def kthvalue(x, k, dim=-1, keepdim=False):
    if x.dim() == 0:
        return o.Identity(x)
    taken = o.Gather(o.TopK(x, [k], axis=dim, largest=0, outputs=2)[0], [k - 1], axis=dim)
    return taken if keepdim else o.Squeeze(taken, [dim])


@case("diff")
def diff(x, n=1, dim=-1, prepend=None, append=None):
    if n == 0:
        return o.Identity(x)
    text = f(x)
    if prepend is not None or append is not None:
        text = o.Concat(*[t for t in (prepend, text, append) if t is not None], axis=dim)
    for _ in range(n):
        text = o.Sub(o.Slice(text, [1], [2**62], [dim]), o.Slice(text, [0], [-1], [dim]))
    return text


@case("trapezoid", "trapz")
def trapezoid(y, x=None, dx=1, dim=-1):
    if x is not None and x.dim() != 1 and x.shape != y.shape:
        raise NotExpressed("an argument")
    both = o.Add(o.Slice(y, [1], [2**62], [dim]), o.Slice(y, [0], [-1], [dim]))
    if x is None:
        width = f(dx)
    else:
        last = dim if x.dim() == y.dim() else 0
        width = o.Sub(o.Slice(x, [1], [2**62], [last]), o.Slice(x, [0], [-1], [last]))
        if x.dim() == 1:
            width = o.Reshape(width, [-1 if d == dim % y.dim() else 1 for d in range(y.dim())])
    return o.ReduceSum(o.Mul(o.Mul(both, width), f(0.5)), [dim], keepdims=0)


# Products -------------------------------------------------------------------------------------------------------------------

case("matmul", "mm", "bmm", "mv", "__rmatmul___")(lambda a, b: o.MatMul(a, b))
case("__rmatmul__")(lambda a, b: o.MatMul(b, a))
case("dot", "vdot")(lambda a, b: o.MatMul(a, b))
case("outer")(lambda a, b: o.Mul(o.Unsqueeze(a, [1]), b))
case("inner")(lambda a, b: o.Mul(a, b) if not a.dim() or not b.dim() else o.Einsum(a, b, equation="...i,...i->...") if b.dim() == 1 else
              o.MatMul(a, o.Transpose(b, perm=[1, 0])) if b.dim() == 2 else nothing())
case("linalg.vecdot")(lambda a, b, dim=-1: o.ReduceSum(o.Mul(a, b), [dim], keepdims=0))
case("einsum")(lambda tensors, equation: o.Einsum(*tensors, equation=equation))
case("nn.functional.linear")(lambda x, w, b=None: added(o.MatMul(x, transposed(w)), b))
case("linalg.det")(lambda x: o.Det(x))


# What PyTorch's operator is put into, where the two differ in what they do not promise: gradients of symmetric matrices, where ours are of
# the triangle that is read, and the signs of vectors.
AROUND = {}


def symmetric(x):
    return o.Mul(o.Add(x, transposed(x)), f(0.5))


def unit_like(x):
    return f"f64{list(x.shape[-1:] * 2)} {torch.eye(x.shape[-1]).tolist()}"


def weighted_projections(vectors, right):
    """What signs cancel in."""
    return (vectors * torch.arange(1.0, vectors.shape[-1] + 1, dtype=vectors.dtype)) @ right


case("linalg.cholesky", "cholesky")(lambda x, upper=False: o.Transpose(o.Cholesky(symmetric(x)), perm=swapped(x)) if upper else o.Cholesky(symmetric(x)))
case("linalg.solve_triangular")(lambda a, b, upper, left=True, unitriangular=False: o.TriangularSolve(a, b, upper=int(upper))
                                if left and not unitriangular else nothing())
case("linalg.inv", "inverse")(lambda x: o.Solve(x, unit_like(x)))
case("linalg.slogdet", "slogdet")(lambda x: o.SlogDet(x, outputs=2)[1])
case("logdet")(lambda x: o.Log(o.Det(x)))
case("linalg.eigvalsh")(lambda x, UPLO="L": o.Eigh(symmetric(x)))
case("linalg.svdvals")(lambda x: o.SVD(x))
case("linalg.pinv", "pinverse")(lambda x, rcond=1e-15, **k: nothing() if k else o.PseudoInverse(x, rcond=rcond))
case("linalg.pinv.singular")(lambda a, b: o.PseudoInverse(o.MatMul(a, transposed(b)), rcond=1e-13))


@case("linalg.solve")
def solve(a, b, left=True):
    if not left:
        raise NotExpressed("an argument")
    if b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1]):
        return o.Squeeze(o.Solve(a, o.Unsqueeze(b, [-1])), [-1])
    return o.Solve(a, b)


@case("linalg.qr", "qr")
def qr(x, mode="reduced", some=True):
    if mode == "r":
        raise NotExpressed("one of the results")
    return o.QR(x, full_matrices=int(mode == "complete" or not some), outputs=2)


@case("linalg.eigh")
def eigh(x, UPLO="L"):
    values, vectors = o.Eigh(symmetric(x), outputs=2)
    return [values, projections(x, vectors, o.Transpose(vectors, perm=swapped(x)))]


@case("linalg.svd")
def svd(x, full_matrices=True):
    s, u, vh = o.SVD(x, outputs=3)
    return [projections(x, u, vh), s]


def swapped(x):
    return [*range(x.dim() - 2), x.dim() - 1, x.dim() - 2]


def projections(x, vectors, right):
    k = min(x.shape[-2:])
    return o.MatMul(o.Mul(vectors, f"f64[{k}] {[float(i + 1) for i in range(k)]}"), right)


def around_eigh(operator, x, **k):
    values, vectors = operator((x + x.mT) / 2, **k)
    return [values, weighted_projections(vectors, vectors.mT)]


def around_svd(operator, x, full_matrices=True):
    u, s, vh = operator(x, full_matrices=False)
    return [weighted_projections(u, vh), s]


AROUND["linalg.eigh"], AROUND["linalg.svd"] = around_eigh, around_svd
AROUND["linalg.eigvalsh"] = lambda operator, x, **k: operator((x + x.mT) / 2, **k)


@case("linalg.multi_dot")
def multi_dot(tensors):
    product = tensors[0]
    for factor in tensors[1:]:
        product = o.MatMul(product, factor)
    return product


def transposed(x):
    return o.Transpose(x, perm=[*range(x.dim() - 2), x.dim() - 1, x.dim() - 2]) if x.dim() > 1 else f(x)


def added(text, b):
    return text if b is None else o.Add(text, b)


def scaled_sum(x, product, beta=1, alpha=1):
    return o.Mul(f(alpha), product) if beta == 0 else o.Add(o.Mul(f(beta), f(x)), o.Mul(f(alpha), product))


case("addmm", "addmm.decomposed", "addmv", "baddbmm")(lambda x, a, b, **k: scaled_sum(x, o.MatMul(a, b), **k))
case("addr")(lambda x, a, b, **k: scaled_sum(x, o.Mul(o.Unsqueeze(a, [1]), b), **k))
case("addbmm")(lambda x, a, b, **k: scaled_sum(x, o.ReduceSum(o.MatMul(a, b), [0], keepdims=0), **k))


@case("linalg.matrix_power")
def matrix_power(x, n):
    if n == 0:
        raise NotExpressed("a constant")
    product = factor = f(x) if n > 0 else o.Solve(x, unit_like(x))
    for _ in range(abs(n) - 1):
        product = o.MatMul(product, factor)
    return product


@case("tensordot")
def tensordot(a, b, dims=2):
    left, right = (list(range(a.dim() - dims, a.dim())), list(range(dims))) if isinstance(dims, int) else dims
    left, right = [d % a.dim() for d in left], [d % b.dim() for d in right]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    first = [next(letters) for _ in range(a.dim())]
    second = [first[left[right.index(d)]] if d in right else next(letters) for d in range(b.dim())]
    rest = [first[d] for d in range(a.dim()) if d not in left] + [second[d] for d in range(b.dim()) if d not in right]
    return o.Einsum(a, b, equation=f"{''.join(first)},{''.join(second)}->{''.join(rest)}")


@case("kron")
def kron(a, b):
    rank = max(a.dim(), b.dim())
    first, second = [1] * (rank - a.dim()) + list(a.shape), [1] * (rank - b.dim()) + list(b.shape)
    left = o.Reshape(a, [n for size in first for n in (size, 1)])
    right = o.Reshape(b, [n for size in second for n in (1, size)])
    return o.Reshape(o.Mul(left, right), [m * n for m, n in zip(first, second)])


@case("cross", "linalg.cross")
def cross(a, b, dim=None):
    if dim is None:
        dim = next(d for d, n in enumerate(a.shape) if n == 3) if Text.current else -1
    rolled = lambda x, i: o.Gather(x, [(i + k) % 3 for k in range(3)], axis=dim)  # noqa: E731
    return o.Sub(o.Mul(rolled(a, 1), rolled(b, 2)), o.Mul(rolled(a, 2), rolled(b, 1)))


case("linalg.cross")(lambda a, b, dim=-1: cross(a, b, dim))


@case("nn.functional.bilinear")
def bilinear(a, b, w, bias=None):
    return added(o.Einsum(a, w, b, equation="...i,kij,...j->...k"), bias)


# Movement -------------------------------------------------------------------------------------------------------------------

def sizes(*shape):
    return list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else list(shape)


case("reshape", "view", "view_copy")(lambda x, *shape: o.Reshape(x, sizes(*shape), allowzero=int(x.numel() == 0)) if 0 not in sizes(*shape) or -1 not in sizes(*shape) else nothing())
case("reshape_as", "view_as")(lambda x, y: o.Reshape(x, list(y.shape), allowzero=1))
case("ravel")(lambda x: o.Reshape(x, [x.numel()], allowzero=1))
case("flatten")(lambda x, start_dim=0, end_dim=-1: o.Reshape(x, list(x.detach().flatten(start_dim, end_dim).shape), allowzero=1))
case("unflatten")(lambda x, dim, shape: o.Reshape(x, list(x.detach().unflatten(dim, shape).shape), allowzero=1))
case("squeeze", "squeeze.multiple", "squeeze_copy")(lambda x, *dim: o.Reshape(x, list(x.detach().squeeze(*dim).shape), allowzero=1))
case("unsqueeze", "unsqueeze_copy")(lambda x, dim: o.Unsqueeze(x, [dim]))
case("permute", "permute_copy")(lambda x, *dims: o.Transpose(x, perm=[d % x.dim() for d in sizes(*dims)]) if x.dim() else o.Identity(x))
case("expand", "broadcast_to", "expand_copy")(lambda x, *shape: o.Expand(x, [1 if n == -1 else n for n in sizes(*shape)]))
case("expand_as")(lambda x, y: o.Expand(x, list(y.shape)))
case("atleast_1d", "atleast_2d", "atleast_3d")(nothing)
case("T", "t", "t_copy", "H")(lambda x: o.Transpose(x, perm=list(range(x.dim()))[::-1]) if x.dim() > 1 else o.Identity(x))
case("mT", "mH")(lambda x: transposed(x))
case("fill")(lambda x, value: o.Expand(f(value), list(x.shape)))
case("zero_")(nothing)


@case("transpose", "swapaxes", "transpose_copy")
def transpose(x, a, b):
    if not x.dim():
        return o.Identity(x)
    perm = list(range(x.dim()))
    perm[a], perm[b] = perm[b], perm[a]
    return o.Transpose(x, perm=perm)


@case("movedim")
def movedim(x, source, destination):
    source = [source] if isinstance(source, int) else source
    destination = [destination] if isinstance(destination, int) else destination
    moved = {d % x.dim(): s % x.dim() for s, d in zip(source, destination)}
    rest = iter(d for d in range(x.dim()) if d not in moved.values())
    return o.Transpose(x, perm=[moved[d] if d in moved else next(rest) for d in range(x.dim())]) if x.dim() else o.Identity(x)


@case("repeat", "tile")
def repeat(x, *counts):
    counts = sizes(*counts)
    if not counts:
        return o.Identity(x)
    shape = [1] * (len(counts) - x.dim()) + list(x.shape)
    return o.Tile(o.Reshape(x, shape, allowzero=1), [1] * (len(shape) - len(counts)) + counts)


@case("cat")
def cat(tensors, dim=0):
    parts = [t for t in tensors if t.shape != (0,)] or list(tensors)
    return o.Concat(*parts, axis=dim)


@case("stack")
def stack(tensors, dim=0):
    return o.Concat(*[o.Unsqueeze(t, [dim]) for t in tensors], axis=dim)


def stacked(at_least, axis):
    def function(tensors):
        whole = [list(at_least(t.detach()).shape) for t in tensors]
        return o.Concat(*[o.Reshape(t, shape, allowzero=1) for t, shape in zip(tensors, whole)], axis=axis(whole[0]))

    return function


case("hstack")(stacked(torch.atleast_1d, lambda shape: 0 if len(shape) == 1 else 1))
case("vstack")(stacked(torch.atleast_2d, lambda shape: 0))
case("dstack")(stacked(torch.atleast_3d, lambda shape: 2))
case("column_stack")(stacked(lambda t: t.reshape(-1, 1) if t.dim() < 2 else t, lambda shape: 1))


def parts(function):
    """Pieces of a tensor, by what they are of its positions."""
    def split(x, *arguments, **keywords):
        positions = torch.arange(x.numel()).reshape(x.shape)
        pieces = function(positions, *arguments, **keywords)
        return [by_positions(x, piece) for piece in (pieces if isinstance(pieces, (list, tuple)) else [pieces])]

    return split


def by_positions(x, positions):
    return o.Gather(o.Reshape(x, [-1]), positions.contiguous())


def chunks(function):
    """Pieces along an axis, as Split."""
    def split(x, *arguments, dim=0, **keywords):
        if len(arguments) > 1:
            *arguments, dim = arguments
        pieces = function(x.detach(), *arguments, dim=dim, **keywords)
        lengths = [piece.shape[dim] for piece in pieces]
        if len(lengths) == 1:
            return [o.Identity(x)]
        return o.Split(x, lengths, axis=dim, outputs=len(lengths))

    return split


for names, function in {
    "chunk unsafe_chunk": torch.chunk, "split split.list_args unsafe_split": torch.split, "split_with_sizes split_with_sizes_copy": torch.split_with_sizes,
    "tensor_split": torch.tensor_split,
}.items():
    case(*names.split())(chunks(function))
for name in "hsplit vsplit dsplit unfold_copy diagonal_copy as_strided as_strided_copy".split():
    case(name)(parts(getattr(torch, name.split(".")[0])))
case("unfold")(parts(torch.Tensor.unfold))
for name in "unbind unbind_copy linalg.diagonal diagonal narrow select flip fliplr flipud rot90 roll tril triu_none repeat_interleave".split():
    function = torch
    for part in name.split("."):
        function = getattr(function, part, None)
    if function:
        case(name)(parts(function))
case("narrow_copy")(parts(torch.narrow))
case("slice")(parts(lambda x, dim=0, start=None, end=None, step=1: torch.ops.aten.slice(x, dim, start, end, step)))
case("diag")(lambda x, diagonal=0: parts(torch.diag)(x, diagonal) if x.dim() == 2 else put(x, torch.diag(torch.arange(1, x.numel() + 1), diagonal)))
case("diag_embed")(lambda x, *a, **k: put(x, torch.diag_embed(counted(x), *a, **k)))
case("diagflat")(lambda x, *a, **k: put(x, torch.diagflat(counted(x), *a, **k)))
case("block_diag")(lambda *tensors: block_diag(tensors))
case("fft.fftshift", "fft.ifftshift")(nothing)


def counted(x):
    return torch.arange(1, x.numel() + 1).reshape(x.shape)


def put(x, places):
    """Elements of x where places count them from 1, else 0."""
    padded = o.Concat("f64[1] [0.0]", o.Reshape(x, [-1]), axis=0)
    return o.Gather(padded, places.contiguous())


def block_diag(tensors):
    shapes = [torch.atleast_2d(t.detach()).shape for t in tensors]
    width = sum(shape[1] for shape in shapes)
    rows, at = [], 0
    for tensor, shape in zip(tensors, shapes):
        rows.append(o.Pad(o.Reshape(tensor, list(shape), allowzero=1), [0, at, 0, width - at - shape[1]]))
        at += shape[1]
    return o.Concat(*rows, axis=0)


case("tril")(lambda x, diagonal=0: o.Trilu(x, f"i64[] {diagonal}", upper=0))
case("triu")(lambda x, diagonal=0: o.Trilu(x, f"i64[] {diagonal}"))


@case("flip")
def flip(x, dims):
    dims = [dims] if isinstance(dims, int) else list(dims)
    return o.Slice(x, [-1] * len(dims), [-(2**62)] * len(dims), dims, [-1] * len(dims)) if dims and x.dim() else o.Identity(x)


case("fliplr")(lambda x: flip(x, [1]))
case("flipud")(lambda x: flip(x, [0]))


@case("index_select")
def index_select(x, dim, index):
    if x.dim() == 0:
        return o.Squeeze(o.Gather(o.Reshape(x, [1]), index.reshape(-1))) if index.numel() == 1 else nothing()
    return o.Gather(x, index.reshape(-1), axis=dim)


@case("gather", "take_along_dim")
def gather(x, dim, index, sparse_grad=False):
    if x.dim() == 0 or x.dim() != index.dim():
        raise NotExpressed("a number")
    return o.GatherElements(x, index, axis=dim)


case("take")(lambda x, index: o.Gather(o.Reshape(x, [-1]), index))


@case("take_along_dim")
def take_along_dim(x, index, dim=None):
    if dim is None:
        return o.GatherElements(o.Reshape(x, [-1]), o.Reshape(index, [-1]))
    shape = list(torch.broadcast_shapes([1 if d == dim % x.dim() else n for d, n in enumerate(x.shape)], [1 if d == dim % x.dim() else n for d, n in enumerate(index.shape)]))
    whole = lambda t: [t.shape[d] if d == dim % x.dim() else n for d, n in enumerate(shape)]  # noqa: E731
    return o.GatherElements(o.Expand(x, whole(x)), o.Expand(index, whole(index)), axis=dim)


@case("__getitem__")
def getitem(x, key):
    try:
        return by_positions(x, torch.arange(x.numel()).reshape(x.shape)[key])
    except (IndexError, TypeError) as error:
        raise NotExpressed(str(error)) from error


def scattered(reduction):
    def scatter(x, dim, index, source, reduce=None, include_self=True):
        reductions = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add", "multiply": "mul", None: reduction}
        if reduce == "mean" or not include_self or x.dim() == 0:
            raise NotExpressed("an argument")
        if not isinstance(source, torch.Tensor):
            source = o.Expand(f(source), list(index.shape))
        elif source.shape != index.shape:
            source = o.Slice(source, [0] * index.dim(), list(index.shape), list(range(index.dim())))
        if index.numel() == 0:
            return o.Identity(x)
        return o.ScatterElements(x, index, source, axis=dim, reduction=reductions[reduce])

    return scatter


case("scatter")(scattered("none"))
case("scatter_add")(scattered("add"))
for name in ("sum", "prod", "mean", "amin", "amax"):
    case(f"scatter_reduce.{name}")(scattered(name))


def by_index(reduction):
    def function(x, dim, index, source, alpha=1):
        if x.dim() == 0 or index.numel() == 0:
            raise NotExpressed("a number")
        shape = [1] * x.dim()
        shape[dim] = -1
        whole = list(x.shape)
        whole[dim] = index.numel()
        places = o.Expand(o.Reshape(index, shape), whole)
        updates = o.Expand(f(source), whole) if not isinstance(source, torch.Tensor) or source.dim() == 0 else f(source)
        return o.ScatterElements(x, places, o.Mul(updates, f(alpha)), axis=dim, reduction=reduction)

    return function


case("index_add")(by_index("add"))
case("index_copy")(by_index("none"))
case("index_fill")(lambda x, dim, index, value: index_fill(x, dim, index, value))
case("index_reduce.prod")(lambda x, dim, index, source, reduce, include_self=True: by_index("mul")(x, dim, index, source) if include_self else nothing())
case("index_reduce.amax")(lambda x, dim, index, source, reduce, include_self=True: by_index("max")(x, dim, index, source) if include_self else nothing())
case("index_reduce.amin")(lambda x, dim, index, source, reduce, include_self=True: by_index("min")(x, dim, index, source) if include_self else nothing())


def index_fill(x, dim, index, value):
    """One number, of which there is no more than one at a place."""
    if x.dim() == 0 or index.numel() == 0:
        raise NotExpressed("a number")
    is_filled = torch.zeros(x.shape, dtype=torch.bool).index_fill(dim, index.reshape(-1), True)
    return o.Where(is_filled, f(value), x)


@case("index_put")
def index_put(x, indices, values, accumulate=False):
    if any(i is None for i in indices):
        raise NotExpressed("an argument")
    places = torch.arange(x.numel()).reshape(x.shape)[tuple(indices)]
    updates = o.Reshape(o.Expand(values, list(places.shape)), [-1])
    flat = o.ScatterElements(o.Reshape(x, [-1]), places.reshape(-1), updates, reduction="add" if accumulate else "none")
    return o.Reshape(flat, list(x.shape))


@case("put")
def put_(x, index, source, accumulate=False):
    flat = o.ScatterElements(o.Reshape(x, [-1]), index.reshape(-1), o.Reshape(source, [-1]), reduction="add" if accumulate else "none")
    return o.Reshape(flat, list(x.shape)) if index.numel() else o.Identity(x)


def replaced(function):
    """A part of a tensor, replaced: by its positions."""
    def replace(x, source, *arguments, **keywords):
        places = function(torch.arange(x.numel()).reshape(x.shape), *arguments, **keywords).contiguous()
        if not places.numel():
            return o.Identity(x)
        updates = o.Reshape(o.Expand(source, list(places.shape)), [-1])
        return o.Reshape(o.ScatterElements(o.Reshape(x, [-1]), places.reshape(-1), updates), list(x.shape))

    return replace


case("select_scatter")(replaced(torch.select))
case("slice_scatter")(replaced(lambda x, dim=0, start=None, end=None, step=1: torch.ops.aten.slice(x, dim, start, end, step)))
case("diagonal_scatter")(replaced(torch.diagonal))

case("masked_fill")(lambda x, mask, value: o.Where(mask, f(value), x))


@case("masked_select")
def masked_select(x, mask):
    shape = list(torch.broadcast_shapes(x.shape, mask.shape))
    return o.Compress(o.Expand(x, shape), o.Reshape(o.Expand(mask, shape), [-1]))


@case("nn.functional.pad.constant", "constant_pad_nd", "nn.functional.pad.reflect", "nn.functional.pad.replicate", "nn.functional.pad.circular",
      "nn.functional.pad.replicate_negative")
def pad(x, pads, mode="constant", value=None):
    kinds = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    if not isinstance(mode, str):
        mode, value = "constant", mode
    if mode != "constant" and any(p < 0 for p in pads):
        raise NotExpressed("negative pads of another mode")
    count = len(pads) // 2
    begins, ends = [pads[2 * i] for i in range(count)], [pads[2 * i + 1] for i in range(count)]
    dims = [x.dim() - 1 - i for i in range(count)]
    return o.Pad(x, begins + ends, f(value or 0) if mode == "constant" else None, dims, mode=kinds[mode])


case("nn.functional.pixel_shuffle")(lambda x, upscale_factor: o.DepthToSpace(x, blocksize=upscale_factor, mode="CRD") if x.dim() == 4 and x.numel() else nothing())
case("nn.functional.pixel_unshuffle")(parts(torch.nn.functional.pixel_unshuffle))
case("nn.functional.channel_shuffle")(parts(torch.nn.functional.channel_shuffle))
case("nn.functional.unfold")(lambda x, *a, **k: put(x, torch.nn.functional.unfold(counted(x).double(), *a, **k).long()))
case("nn.functional.embedding")(lambda weight, index, padding_idx=None, max_norm=None, scale_grad_by_freq=False, **_:
                                o.Gather(weight, index) if max_norm is None and padding_idx is None and not scale_grad_by_freq else nothing())
case("cartesian_prod")(lambda *tensors: nothing())


@case("meshgrid.variadic_tensors", "meshgrid.list_of_tensors")
def meshgrid(*tensors, indexing="ij"):
    tensors = tensors[0] if isinstance(tensors[0], (list, tuple)) else tensors
    if indexing != "ij":
        raise NotExpressed("indexing xy")
    shape = [t.numel() for t in tensors]
    return [o.Expand(o.Reshape(t, [-1 if i == k else 1 for k in range(len(shape))]), shape) for i, t in enumerate(tensors)]


@case("broadcast_tensors")
def broadcast_tensors(*tensors):
    shape = list(torch.broadcast_shapes(*[t.shape for t in tensors]))
    return [o.Expand(t, shape) for t in tensors]


@case("sum_to_size")
def sum_to_size(x, *shape):
    shape = sizes(*shape)
    more = x.dim() - len(shape)
    dims = list(range(more)) + [i + more for i, n in enumerate(shape) if n == 1 and x.shape[i + more] != 1]
    return o.Reshape(o.ReduceSum(x, dims, noop_with_empty_axes=1), shape, allowzero=1)


# Windows ---------------------------------------------------------------------------------------------------------------------

def each(value, count):
    value = list(value) if isinstance(value, (list, tuple)) else [value]
    return value * count if len(value) == 1 else value


def batched(x, rank, function):
    """An image without a batch as one of one."""
    if 0 in x.shape:
        raise NotExpressed("an empty image")
    if x.dim() == rank + 2:
        return function(f(x))
    return o.Squeeze(function(o.Unsqueeze(x, [0])), [0])


def convolution(rank):
    def conv(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1):
        attributes = {"strides": each(stride, rank), "dilations": each(dilation, rank), "group": groups}
        if padding == "same":
            total = [d * (n - 1) for d, n in zip(attributes["dilations"], w.shape[2:])]
            attributes["pads"] = [t // 2 for t in total] + [t - t // 2 for t in total]
        elif padding != "valid":
            attributes["pads"] = each(padding, rank) * 2
        return batched(x, rank, lambda t: o.Conv(t, w, bias, **attributes))

    return conv


def transposed_convolution(rank):
    def conv(x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        return batched(x, rank, lambda t: o.ConvTranspose(
            t, w, bias, strides=each(stride, rank), pads=each(padding, rank) * 2, output_padding=each(output_padding, rank),
            dilations=each(dilation, rank), group=groups))

    return conv


def pooling(operator, rank):
    def pool(x, kernel_size, stride=None, padding=0, *others, **keywords):
        if operator == "MaxPool":
            dilation, ceil_mode = keywords.get("dilation", others[0] if others else 1), keywords.get("ceil_mode", False)
            attributes = {"dilations": each(dilation, rank)}
        else:
            names = dict(zip(("ceil_mode", "count_include_pad", "divisor_override"), others)) | keywords
            ceil_mode = names.get("ceil_mode", False)
            if names.get("divisor_override"):
                raise NotExpressed("divisor_override")
            attributes = {"count_include_pad": names.get("count_include_pad", True)}
        if keywords.get("return_indices"):
            raise NotExpressed("indices")
        return batched(x, rank, lambda t: getattr(o, operator)(
            t, kernel_shape=each(kernel_size, rank), strides=each(stride or kernel_size, rank), pads=each(padding, rank) * 2,
            ceil_mode=ceil_mode, **attributes))

    return pool


def adaptive(operator, rank):
    def pool(x, output_size, return_indices=False):
        wanted = each(output_size, rank)
        wanted = [x.shape[-rank + i] if n is None else n for i, n in enumerate(wanted)]
        if return_indices or any(n == 0 or x.shape[-rank + i] % n for i, n in enumerate(wanted)):
            raise NotExpressed("windows of several sizes")
        kernel = [x.shape[-rank + i] // n for i, n in enumerate(wanted)]
        return batched(x, rank, lambda t: getattr(o, operator)(t, kernel_shape=kernel, strides=kernel))

    return pool


for rank in (1, 2, 3):
    TABLE[f"nn.functional.conv{rank}d"] = convolution(rank)
    TABLE[f"nn.functional.conv_transpose{rank}d"] = transposed_convolution(rank)
    TABLE[f"nn.functional.max_pool{rank}d"] = pooling("MaxPool", rank)
    TABLE[f"nn.functional.avg_pool{rank}d"] = pooling("AveragePool", rank)
    TABLE[f"nn.functional.adaptive_avg_pool{rank}d"] = adaptive("AveragePool", rank)
    TABLE[f"nn.functional.adaptive_max_pool{rank}d"] = adaptive("MaxPool", rank)


# Normalizations --------------------------------------------------------------------------------------------------------------

@case("nn.functional.layer_norm")
def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
    dims = list(range(x.dim() - len(shape), x.dim()))
    return affine(normalized(f(x), dims, eps), weight, bias)


def normalized(text, dims, eps):
    centered = o.Sub(text, o.ReduceMean(text, dims))
    return o.Div(centered, o.Sqrt(o.Add(o.ReduceMean(o.Mul(centered, centered), dims), f(eps))))


def affine(text, weight, bias, shape=None):
    fitted = lambda t: f(t) if shape is None else o.Reshape(t, shape)  # noqa: E731
    text = text if weight is None else o.Mul(text, fitted(weight))
    return text if bias is None else o.Add(text, fitted(bias))


@case("nn.functional.rms_norm")
def rms_norm(x, shape, weight=None, eps=None):
    dims = list(range(x.dim() - len(shape), x.dim()))
    eps = torch.finfo(torch.float64).eps if eps is None else eps
    return affine(o.Div(x, o.Sqrt(o.Add(o.ReduceMean(o.Mul(x, x), dims), f(eps)))), weight, None)


@case("nn.functional.group_norm")
def group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    if not x.numel():
        raise NotExpressed("no elements")
    rows = normalized(o.Reshape(x, [x.shape[0], num_groups, -1]), [2], eps)
    return affine(o.Reshape(rows, list(x.shape)), weight, bias, [-1] + [1] * (x.dim() - 2))


@case("nn.functional.instance_norm")
def instance_norm(x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5):
    if not use_input_stats:
        raise NotExpressed("given statistics")
    return affine(normalized(f(x), list(range(2, x.dim())), eps), weight, bias, [-1] + [1] * (x.dim() - 2))


@case("nn.functional.batch_norm")
def batch_norm(x, mean, variance, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    channels = [-1] + [1] * (x.dim() - 2)
    if training:
        return affine(normalized(f(x), [0, *range(2, x.dim())], eps), weight, bias, channels)
    if weight is None or bias is None:
        centered = o.Sub(x, o.Reshape(mean, channels))
        return affine(o.Div(centered, o.Sqrt(o.Add(o.Reshape(variance, channels), f(eps)))), weight, bias, channels)
    return o.BatchNormalization(x, weight, bias, mean, variance, epsilon=eps)


@case("nn.functional.local_response_norm")
def local_response_norm(x, size, alpha=1e-4, beta=0.75, k=1.0):
    if size % 2 == 0:
        raise NotExpressed("an even size, which reaches further to the other side")
    return o.LRN(x, size=size, alpha=alpha, beta=beta, bias=float(k))


@case("nn.functional.normalize")
def normalize(x, p=2.0, dim=1, eps=1e-12):
    return o.Div(x, o.Max(vector_norm(x, p, dim, True), f(eps)))


@case("nn.functional.scaled_dot_product_attention")
def attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if dropout_p or q.dim() != 4 or enable_gqa:
        raise NotExpressed("an argument")
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        attn_mask = f(attn_mask)
    return o.Attention(q, k, v, attn_mask, is_causal=is_causal, scale=scale)


# Losses ----------------------------------------------------------------------------------------------------------------------

def reduce_loss(losses, reduction="mean", **_):
    return losses if reduction == "none" else (o.ReduceSum if reduction == "sum" else o.ReduceMean)(losses, keepdims=0)


def loss(*names):
    return lambda function: case(*[f"nn.functional.{name}" for name in names])(
        lambda *a, reduction="mean", **k: reduce_loss(function(*a, **k), reduction))


loss("l1_loss")(lambda x, y, **_: o.Abs(o.Sub(f(x), f(y))))
loss("soft_margin_loss")(lambda x, y, **_: o.Log(o.Add(f(1), o.Exp(o.Neg(o.Mul(f(x), f(y)))))))
loss("margin_ranking_loss")(lambda a, b, y, margin=0.0, **_: o.Max(o.Add(o.Mul(o.Neg(f(y)), o.Sub(f(a), f(b))), f(margin)), f(0)))


@loss("mse_loss")
def mse_loss(x, y, weight=None, **_):
    d = o.Sub(f(x), f(y))
    if weight is not None:
        raise NotExpressed("an argument")
    return o.Mul(d, d)


@loss("smooth_l1_loss")
def smooth_l1_loss(x, y, beta=1.0, **_):
    d = o.Abs(o.Sub(f(x), f(y)))
    return d if beta == 0 else o.Where(o.Less(d, f(beta)), o.Div(o.Mul(o.Mul(d, d), f(0.5)), f(beta)), o.Sub(d, f(0.5 * beta)))


@loss("huber_loss")
def huber_loss(x, y, delta=1.0, **_):
    d = o.Abs(o.Sub(f(x), f(y)))
    return o.Where(o.LessOrEqual(d, f(delta)), o.Mul(o.Mul(d, d), f(0.5)), o.Mul(f(delta), o.Sub(d, f(0.5 * delta))))


@loss("binary_cross_entropy")
def binary_cross_entropy(x, y, weight=None, **_):
    logarithm = lambda t: o.Max(o.Log(t), f(-100))  # noqa: E731
    losses = o.Neg(o.Add(o.Mul(f(y), logarithm(f(x))), o.Mul(o.Sub(f(1), f(y)), logarithm(o.Sub(f(1), f(x))))))
    return losses if weight is None else o.Mul(losses, f(weight))


@loss("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(x, y, weight=None, pos_weight=None, **_):
    share = f(1) if pos_weight is None else o.Add(f(1), o.Mul(o.Sub(f(pos_weight), f(1)), f(y)))
    losses = o.Add(o.Mul(o.Sub(f(1), f(y)), f(x)), o.Mul(share, o.Softplus(o.Neg(f(x)))))
    return losses if weight is None else o.Mul(losses, f(weight))


@loss("poisson_nll_loss")
def poisson_nll_loss(x, y, log_input=True, full=False, eps=1e-8, **_):
    losses = o.Sub(o.Exp(f(x)), o.Mul(f(y), f(x))) if log_input else o.Sub(f(x), o.Mul(f(y), o.Log(o.Add(f(x), f(eps)))))
    if full:
        stirling = o.Add(o.Sub(o.Mul(f(y), o.Log(f(y))), f(y)), o.Mul(f(0.5), o.Log(o.Mul(f(2 * math.pi), f(y)))))
        losses = o.Add(losses, o.Where(o.Greater(f(y), f(1)), stirling, f(0)))
    return losses


@loss("gaussian_nll_loss")
def gaussian_nll_loss(x, y, variance, full=False, eps=1e-6, **_):
    if not isinstance(variance, torch.Tensor):
        variance = o.Expand(f(variance), [1])
    elif variance.shape != x.shape and variance.dim() == x.dim() - 1:
        variance = o.Unsqueeze(variance, [-1])
    variance = f(variance)
    kept = o.Where(o.Less(variance, f(eps)), f(eps), variance)
    d = o.Sub(f(x), f(y))
    losses = o.Mul(f(0.5), o.Add(o.Log(kept), o.Div(o.Mul(d, d), kept)))
    return o.Add(losses, f(0.5 * math.log(2 * math.pi))) if full else losses


@loss("hinge_embedding_loss")
def hinge_embedding_loss(x, y, margin=1.0, **_):
    zero = f(0)
    near = o.Where(o.Equal(f(y), f(-1)), zero, f(x))
    return o.Add(near, o.Where(o.Equal(f(y), f(1)), zero, o.Relu(o.Sub(f(margin), f(x)))))


@case("nn.functional.kl_div")
def kl_div(x, y, reduction="mean", log_target=False):
    if log_target:
        losses = o.Mul(o.Exp(f(y)), o.Sub(f(y), f(x)))
    else:
        is_zero = o.Equal(f(y), f(0))
        own = o.Where(is_zero, f(0), o.Mul(f(y), o.Log(o.Where(is_zero, f(1), f(y)))))
        losses = o.Sub(own, o.Mul(f(y), f(x)))
    if reduction == "batchmean":
        return o.Div(o.ReduceSum(losses, keepdims=0), f(x.shape[0] if x.dim() else 1))
    return reduce_loss(losses, reduction)


@case("nn.functional.nll_loss", "nn.functional.cross_entropy")
def nll_loss(x, target, weight=None, ignore_index=-100, reduction="mean", operator="NegativeLogLikelihoodLoss", label_smoothing=0.0):
    if target.dtype != torch.int64 or label_smoothing or x.dim() < 2:
        raise NotExpressed("an argument")
    return getattr(o, operator)(x, target, weight, ignore_index=ignore_index, reduction=reduction)


case("nn.functional.cross_entropy")(lambda *a, **k: nll_loss(*a, operator="SoftmaxCrossEntropyLoss", **k))


@case("nn.functional.cosine_similarity")
def cosine_similarity(a, b, dim=1, eps=1e-8):
    shape = list(torch.broadcast_shapes(a.shape, b.shape))
    if not shape:
        raise NotExpressed("numbers")
    a, b = o.Expand(a, shape), o.Expand(b, shape)
    length = lambda t: o.Max(o.ReduceL2(t, [dim]), f(eps))  # noqa: E731
    return o.ReduceSum(o.Mul(o.Div(a, length(a)), o.Div(b, length(b))), [dim], keepdims=0)


@case("nn.functional.pairwise_distance")
def pairwise_distance(a, b, p=2.0, eps=1e-6, keepdim=False):
    d = o.Add(o.Sub(a, b), f(eps))
    if p != 2:
        raise NotExpressed(f"p = {p}")
    return o.ReduceL2(d, [-1], keepdims=keepdim)


@case("nn.functional.triplet_margin_loss")
def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, reduction="mean"):
    if p != 2:
        raise NotExpressed(f"p = {p}")
    distance = lambda a, b: o.ReduceL2(o.Add(o.Sub(a, b), f(eps)), [-1], keepdims=0)  # noqa: E731
    far = distance(anchor, negative)
    if swap:
        far = o.Min(far, distance(positive, negative))
    return reduce_loss(o.Relu(o.Add(o.Sub(distance(anchor, positive), far), f(margin))), reduction)


# Images ----------------------------------------------------------------------------------------------------------------------

def interpolated(mode):
    def interpolate(x, size=None, scale_factor=None, mode=mode, align_corners=None, recompute_scale_factor=None, antialias=False):
        rank = x.dim() - 2
        dims = list(range(2, x.dim()))
        modes = {"nearest": "nearest", "nearest-exact": "nearest", "linear": "linear", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}
        if mode not in modes or recompute_scale_factor:
            raise NotExpressed("an argument")
        attributes = {"mode": modes[mode], "axes": dims, "antialias": int(antialias)}
        transformation = "align_corners" if align_corners else "half_pixel" if mode == "bicubic" else "pytorch_half_pixel" if "linear" in mode else "asymmetric"
        if mode == "nearest":
            attributes["nearest_mode"] = "floor"
        if mode == "nearest-exact":
            transformation = "half_pixel"
            attributes["nearest_mode"] = "round_prefer_ceil"
        attributes["coordinate_transformation_mode"] = transformation
        if size is None and align_corners:  # for which ONNX takes sizes that are no whole numbers
            size = [int(n * s) for n, s in zip(x.shape[2:], each(scale_factor, rank))]
        if size is not None:
            return o.Resize(x, None, None, each(size, rank), **attributes)
        scales = ", ".join(repr(float(s)) for s in each(scale_factor, rank))
        return o.Resize(x, None, f"f32[{rank}] [{scales}]", **attributes)

    return interpolate


for mode in ("nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear"):
    TABLE[f"nn.functional.interpolate.{mode}"] = interpolated(mode)
case("nn.functional.upsample_nearest")(interpolated("nearest"))
case("nn.functional.upsample_bilinear")(lambda x, size=None, scale_factor=None: interpolated("bilinear")(x, size, scale_factor, align_corners=True))


@case("nn.functional.grid_sample")
def grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False):
    kinds = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
    if mode == "bicubic" and padding_mode != "zeros":
        raise NotExpressed("places beyond the border, which ONNX moves before it takes the neighbours")
    return o.GridSample(x, grid, mode=kinds[mode], padding_mode=padding_mode, align_corners=bool(align_corners))


@case("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(x, grid, mode, padding, align_corners):
    return grid_sample(x, grid, ["bilinear", "nearest", "bicubic"][mode], ["zeros", "border", "reflection"][padding], align_corners)
