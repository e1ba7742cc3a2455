"""Operators on images and boxes."""
import numpy as np

from case import Case, ints, reals

CENTERS = ["half_pixel", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners"]


def resize(rng):
    mode = rng.choice(["nearest", "linear", "cubic"])
    dims = (rng.randint(1, 2), rng.randint(1, 2), rng.randint(2, 6), rng.randint(2, 6))
    attributes = {"mode": mode, "coordinate_transformation_mode": rng.choice(CENTERS)}
    if mode == "nearest":
        attributes["nearest_mode"] = rng.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if mode == "cubic":
        attributes |= {"cubic_coeff_a": rng.choice([-0.75, -0.5]), "exclude_outside": rng.randint(0, 1)}
    x = reals(rng, dims)
    # Where a place is a whole number, ONNX Runtime's division in float may fall below it.
    reference = attributes.get("nearest_mode") in ("floor", "ceil")
    sizes = [rng.randint(1, 9), rng.randint(1, 9)]
    # By sizes, of all axes or of the last two: what scale a size means is said by the size alone.
    if rng.random() < 0.5:
        return Case("Resize", [x, None, None, ints([*dims[:2], *sizes])], attributes, constants=(3,), reference=reference)
    if rng.random() < 0.5:
        return Case("Resize", [x, None, None, ints(sizes)], attributes | {"axes": [2, 3]}, constants=(3,), reference=reference)
    # By scales with a whole number of pixels as result, where all runtimes mean the same.
    factors = np.array([1, 1, rng.choice([1, 2, 3]), rng.choice([1, 2, 3])], dtype=np.float32)
    return Case("Resize", [x, None, factors], attributes, constants=(2,), reference=reference)


def antialiased(rng):
    dims = (1, rng.randint(1, 2), rng.randint(4, 8), rng.randint(4, 8))
    x = reals(rng, dims)
    attributes = {"mode": rng.choice(["linear", "cubic"]), "antialias": 1, "coordinate_transformation_mode": "half_pixel"}
    return Case("Resize", [x, None, None, ints([*dims[:2], rng.randint(1, 9), rng.randint(1, 9)])], attributes, constants=(3,))


def cropped(rng):
    # ONNX Runtime does not crop an axis that it does not scale.
    x = reals(rng, (1, 1, rng.randint(2, 5), rng.randint(2, 5)))
    roi = np.array([0, 0, rng.uniform(0, 0.4), rng.uniform(0, 0.4), 1, 1, rng.uniform(0.6, 1.2), rng.uniform(0.6, 1.2)], dtype=np.float32)
    return Case("Resize", [x, roi, None, ints([1, 1, rng.randint(2, 5), rng.randint(2, 5)])],
                {"mode": rng.choice(["nearest", "linear"]), "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0},
                constants=(1, 3), reference=True)


def grid_sample(rng):
    batch, size = rng.randint(1, 2), rng.randint(2, 5)
    spatial = rng.choice([2, 2, 3])
    x = reals(rng, (batch, rng.randint(1, 2), *[rng.randint(1, 4) + 1 for _ in range(spatial)]))
    grid = reals(rng, (batch, *[size] * spatial, spatial), low=-1.3, high=1.3)
    mode = rng.choice(["linear", "nearest", "cubic"] if spatial == 2 else ["linear", "nearest"])
    return Case("GridSample", [x, grid], {"mode": mode, "padding_mode": rng.choice(["zeros", "border", "reflection"]),
                                          "align_corners": rng.randint(0, 1)}, reference=mode == "cubic")


def affine_grid(rng):
    spatial = rng.choice([2, 3])
    batch = rng.randint(1, 2)
    theta = reals(rng, (batch, spatial, spatial + 1))
    # One pixel has no corners to align.
    sides = [rng.randint(2, 5) for _ in range(spatial)]
    return Case("AffineGrid", [theta, ints([batch, 1, *sides])], {"align_corners": rng.randint(0, 1)})


def col2im(rng):
    kernel = [rng.randint(1, 3), rng.randint(1, 3)]
    attributes = {"strides": [rng.randint(1, 2)] * 2, "dilations": [rng.randint(1, 2)] * 2, "pads": [rng.randint(0, 1)] * 4}
    image = [rng.randint(5, 8), rng.randint(5, 8)]
    blocks = 1
    for i in range(2):
        blocks *= (image[i] + 2 * attributes["pads"][0] - attributes["dilations"][0] * (kernel[i] - 1) - 1) // attributes["strides"][0] + 1
    return Case("Col2Im", [reals(rng, (rng.randint(1, 2), rng.randint(1, 2) * kernel[0] * kernel[1], blocks)), ints(image), ints(kernel)], attributes)


def boxes(rng, count):
    """[y1, x1, y2, x2] in any order of the corners."""
    corners = reals(rng, (count, 4), low=0.0, high=4.0)
    return np.round(corners, 2)


def non_max_suppression(rng):
    batch, count, classes = rng.randint(1, 2), rng.randint(0, 8), rng.randint(1, 3)
    inputs = [np.stack([boxes(rng, count) for _ in range(batch)]), reals(rng, (batch, classes, count), low=0.0, high=1.0),
              ints([rng.randint(0, 4)]), np.array([rng.choice([0.0, 0.3, 0.6])], np.float32), np.array([rng.choice([0.0, 0.4])], np.float32)]
    if rng.random() < 0.3:
        inputs = inputs[:rng.randint(3, 4)]
    return Case("NonMaxSuppression", inputs, {"center_point_box": rng.randint(0, 1)})


def roi_align(rng):
    count = rng.randint(0, 3)
    rois = np.sort(reals(rng, (count, 2, 2), low=-1.0, high=12.0), axis=1).reshape(count, 4)
    x = reals(rng, (rng.randint(1, 2), rng.randint(1, 3), rng.randint(3, 8), rng.randint(3, 8)))
    return Case("RoiAlign", [x, rois, ints([rng.randrange(len(x)) for _ in range(count)])],
                {"mode": rng.choice(["avg", "max"]), "output_height": rng.randint(1, 3), "output_width": rng.randint(1, 3),
                 "sampling_ratio": rng.randint(0, 3), "spatial_scale": rng.choice([1.0, 0.5]),
                 "coordinate_transformation_mode": rng.choice(["half_pixel", "output_half_pixel"])})


def max_roi_pool(rng):
    count = rng.randint(1, 3)
    x = reals(rng, (rng.randint(1, 2), rng.randint(1, 3), rng.randint(3, 8), rng.randint(3, 8)))
    corners = np.sort(np.round(reals(rng, (count, 2, 2), low=0.0, high=10.0)), axis=1).reshape(count, 4)
    rois = np.concatenate([np.array([[rng.randrange(len(x))] for _ in range(count)], np.float32), corners], 1)
    return Case("MaxRoiPool", [x, rois], {"pooled_shape": [rng.randint(1, 3), rng.randint(1, 3)], "spatial_scale": rng.choice([1.0, 0.5])})


GENERATORS = {
    "Resize": resize, "Resize, antialiased": antialiased, "Resize, cropped": cropped, "GridSample": grid_sample,
    "AffineGrid": affine_grid, "Col2Im": col2im, "NonMaxSuppression": non_max_suppression, "RoiAlign": roi_align,
    "MaxRoiPool": max_roi_pool,
}
