"""Convolutions, pools, norms and resizing: every padding, group, stride, layout and statistic."""
# ruff: noqa: E501 - statements of programs are longer than lines of code.

from fuzz.literal import shape_text
from fuzz.themes.layouts import floating, operand

FEW = [1, 2, 3, 4, 5, 6]


def image(b, batch, channels, sizes, kind) -> str:
    x = operand(b, (batch, channels, *sizes), kind)
    if len(sizes) == 2 and b.rng.random() < 0.3:
        return f"{x}.contiguous(memory_format=torch.channels_last)"
    if len(sizes) == 3 and b.rng.random() < 0.2:
        return f"{x}.contiguous(memory_format=torch.channels_last_3d)"
    return x


def pair(b, choices, n) -> str:
    rng = b.rng
    if rng.random() < 0.6:
        return str(rng.choice(choices))
    return shape_text([rng.choice(choices) for _ in range(n)])


def chain(b, text: str, channels: int, dims: int, kind: str) -> str:
    rng = b.rng
    for _ in range(rng.choice([0, 0, 1, 2])):
        text = rng.choice(
            [
                f"F.relu({text})",
                f"F.silu({text})",
                f"F.gelu({text})",
                f"F.hardswish({text})",
                f"F.batch_norm({text}, normal(({channels},), 1, {kind}), normal(({channels},), 2, {kind}).abs() + 0.5)",
                f"F.group_norm({text}, 1)",
                f"F.instance_norm({text})",
                f"({text} + 1)",
                f"({text}).mean(-1)",
                f"({text}).flatten(1)",
                f"({text}).contiguous()",
                f"({text} * {operand(b, (1, channels, *[1] * dims), kind)})",
            ]
        )
        if ".mean(" in text or ".flatten(" in text:
            break
    return text


def convolution(b):
    rng, kind = b.rng, floating(b)
    dims = rng.choice([1, 2, 2, 2, 3])
    groups = rng.choice([1, 1, 1, 2, 3, 4])
    into, out = groups * rng.choice([1, 2, 4]), groups * rng.choice([1, 2, 3, 8])
    batch = rng.choice([1, 2, 3, 0] if rng.random() < 0.3 else [1, 2])
    limit = 9 if dims < 3 else 5
    sizes = [rng.randint(1, limit) for _ in range(dims)]
    kernel = [rng.choice([1, 1, 2, 3, 3, 4, 5]) for _ in range(dims)]
    x = image(b, batch, into, sizes, kind)
    transposed = rng.random() < 0.3
    more = []
    [rng.choice([1, 1, 2, 3]) for _ in range(dims)]
    if rng.random() < 0.5:
        more.append(f"stride={pair(b, [1, 2, 3], dims)}")
    if rng.random() < 0.3:
        more.append(f"dilation={pair(b, [1, 2, 3], dims)}")
    if not transposed and "stride" not in str(more) and rng.random() < 0.3:
        more.append(f"padding={rng.choice(['same', 'valid'])!r}")
    elif rng.random() < 0.6:
        more.append(f"padding={pair(b, [0, 1, 2, 3], dims)}")
    if transposed and rng.random() < 0.3:
        more.append(f"output_padding={pair(b, [0, 1], dims)}")
    if groups > 1:
        more.append(f"groups={groups}")
    shape = (into, out // groups, *kernel) if transposed else (out, into // groups, *kernel)
    weight = image(b, shape[0], shape[1], kernel, kind)
    bias = operand(b, (out,), kind) if rng.random() < 0.6 else "None"
    function = f"conv{'_transpose' * transposed}{dims}d"
    if rng.random() < 0.1:
        x = f"{x}[0]" if batch else x
    if rng.random() < 0.1 and not transposed:
        x = f"F.pad({x}, {shape_text([rng.choice([0, 1, 2]) for _ in range(2 * dims)])}, mode={rng.choice(['reflect', 'replicate', 'circular', 'constant'])!r})"
    text = f"F.{function}({', '.join([x, weight, bias, *more])})"
    b.bind(chain(b, text, out, dims, kind), function)


def pool(b):
    rng, kind = b.rng, floating(b)
    dims = rng.choice([1, 2, 2, 3])
    sizes = [rng.randint(1, 9 if dims < 3 else 5) for _ in range(dims)]
    batch, channels = rng.choice([1, 2, 0] if rng.random() < 0.2 else [1, 2]), rng.choice(FEW)
    x = image(b, batch, channels, sizes, kind)
    way = rng.choice(
        ["max", "avg", "lp", "adaptive_avg", "adaptive_max", "fractional", "unpool", "indices"]
    )
    more = [pair(b, [1, 2, 3], dims)]
    if rng.random() < 0.6:
        more.append(f"stride={pair(b, [1, 2, 3, 4], dims)}")
    if rng.random() < 0.3:
        more.append("ceil_mode=True")
    if way in ("max", "avg", "indices") and rng.random() < 0.4:
        more.append("padding=1")
    if way in ("max", "indices") and rng.random() < 0.3:
        more.append(f"dilation={pair(b, [1, 2], dims)}")
    if way == "avg":
        if rng.random() < 0.3:
            more.append("count_include_pad=False")
        if dims > 1 and rng.random() < 0.2:
            more.append(f"divisor_override={rng.choice([1, 3])}")
        text = f"F.avg_pool{dims}d({', '.join([x, *more])})"
    elif way == "max":
        text = f"F.max_pool{dims}d({', '.join([x, *more])})"
    elif way == "indices":
        text = f"F.max_pool{dims}d({', '.join([x, *more, 'return_indices=True'])})"
    elif way == "lp":
        text = f"F.lp_pool{dims}d({', '.join([x, rng.choice(['1', '2', '3.5']), *more])})"
    elif way == "unpool":
        text = f"F.max_unpool{dims}d(*F.max_pool{dims}d({x}, 2, return_indices=True), 2)"
    else:
        kind_ = "max" if way == "adaptive_max" else "avg"
        to = shape_text(
            [
                rng.choice([1, 2, 3, 5, 7, 0] if rng.random() < 0.2 else [1, 2, 3, 4])
                for _ in range(dims)
            ]
        )
        if rng.random() < 0.4:
            to = str(rng.choice([1, 2, 3, 4, 8]))
        text = f"F.adaptive_{kind_}_pool{dims}d({x}, {to}{', return_indices=True' if kind_ == 'max' and rng.random() < 0.3 else ''})"
    b.bind(text, f"{way}_pool")


def norm(b):
    rng, kind = b.rng, floating(b)
    dims = rng.choice([0, 1, 2, 2, 3])
    sizes = [rng.randint(1, 5) for _ in range(dims)]
    batch, channels = (
        rng.choice([1, 2, 3, 5, 0] if rng.random() < 0.3 else [2, 3, 5]),
        rng.choice([1, 2, 4, 6]),
    )
    x = image(b, batch, channels, sizes, kind) if dims else operand(b, (batch, channels), kind)
    eps = rng.choice(["", "", ", eps=0.1", ", eps=0.0", ", eps=1e-3"])
    wb = (
        f", weight={operand(b, (channels,), kind)}, bias={operand(b, (channels,), kind)}"
        if rng.random() < 0.6
        else ""
    )
    way = rng.choice(
        ["batch", "batch", "group", "instance", "layer", "rms", "lrn", "normalize", "weight"]
    )
    if way == "batch":
        if rng.random() < 0.5:
            text = f"F.batch_norm({x}, None, None{wb}, training=True{eps})"
        else:
            mean, var = (
                operand(b, (channels,), kind, grad=False),
                b.bind(f"normal(({channels},), {rng.randrange(99)}, {kind}).abs() + 0.5", "create")[
                    0
                ],
            )
            momentum = rng.choice(["0.1", "0.0", "1.0", "0.5"])
            text = f"F.batch_norm({x}, {mean}, {var}{wb}, training={rng.random() < 0.5}, momentum={momentum}{eps})"
    elif way == "group":
        groups = rng.choice([g for g in (1, 2, 3, 4, 6) if channels % g == 0])
        text = f"F.group_norm({x}, {groups}{wb}{eps})"
    elif way == "instance":
        text = f"F.instance_norm({x}{wb}{eps})"
    elif way in ("layer", "rms"):
        shape = (batch, channels, *sizes)
        last = shape[rng.randrange(1, len(shape)) :]
        given = f", {operand(b, last, kind)}" if rng.random() < 0.6 else ""
        if given and way == "layer" and rng.random() < 0.6:
            given += f", {operand(b, last, kind)}"
        text = f"F.{way}_norm({x}, {shape_text(last)}{given}{eps})"
    elif way == "lrn":
        text = f"F.local_response_norm({x}, {rng.choice([1, 2, 3])})"
    elif way == "normalize":
        text = f"F.normalize({x}, p={rng.choice(['1', '2', '3.0', 'inf'])}, dim={rng.choice(['0', '1', '-1'])})"
    else:
        text = f"torch._weight_norm({x}, {operand(b, (batch, *[1] * (1 + dims)), kind)}, 0)"
    b.bind(text, f"{way}_norm")


def resize(b):
    rng, kind = b.rng, floating(b)
    dims = rng.choice([1, 2, 2, 3])
    sizes = [rng.randint(1, 6) for _ in range(dims)]
    x = image(b, rng.choice([1, 2]), rng.choice([1, 3, 4]), sizes, kind)
    mode = rng.choice(
        [
            "nearest",
            "nearest-exact",
            "area",
            {1: "linear", 2: "bilinear", 3: "trilinear"}[dims],
            "bicubic" if dims == 2 else "nearest",
        ]
    )
    more = [f"mode={mode!r}"]
    if rng.random() < 0.5:
        more.append(f"size={shape_text([rng.randint(1, 9) for _ in range(dims)])}")
    else:
        more.append(f"scale_factor={rng.choice(['2', '0.5', '1.5', '0.7', '3.0', '2.3'])}")
        if rng.random() < 0.3:
            more.append("recompute_scale_factor=True")
    if "linear" in mode or "cubic" in mode:
        if rng.random() < 0.5:
            more.append("align_corners=True")
        elif mode != "trilinear" and mode != "linear" and rng.random() < 0.3:
            more.append("antialias=True")
    ways = [f"F.interpolate({x}, {', '.join(more)})"] * 4
    if dims == 2:
        grid = operand(b, (1, 3, 4, 2), kind)
        ways += [
            f"F.grid_sample({x}[:1], {grid}, mode={rng.choice(['bilinear', 'nearest', 'bicubic'])!r}, padding_mode={rng.choice(['zeros', 'border', 'reflection'])!r}, align_corners={rng.random() < 0.5})",
            f"F.unfold({x}, 2, padding=1)",
            f"F.fold(F.unfold({x}, 2, padding=1, stride={rng.choice([1, 2])}), {shape_text(sizes)}, 2, padding=1)",
            f"F.pixel_unshuffle(F.pixel_shuffle({operand(b, (1, 8, *sizes), kind)}, 2), 2)",
            f"F.affine_grid({operand(b, (2, 2, 3), kind)}, (2, 1, 3, 3), align_corners={rng.random() < 0.5})",
            f"F.channel_shuffle({operand(b, (1, 4, *sizes), kind)}, 2)",
        ]
    b.bind(rng.choice(ways), "resize")


LAYERS = [
    (
        "nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, padding_mode='{mode}'), nn.BatchNorm2d(4, momentum={momentum}, affine={affine}), nn.{act}())",
        (2, 3, 5, 5),
    ),
    (
        "nn.Sequential(nn.Conv2d(4, 4, 3, groups=4, bias=False), nn.BatchNorm2d(4, momentum={momentum}), nn.{act}())",
        (2, 4, 5, 5),
    ),
    (
        "nn.Sequential(nn.Conv1d(3, 4, 3, padding=2, dilation=2, padding_mode='{mode}'), nn.BatchNorm1d(4, track_running_stats={affine}), nn.{act}())",
        (2, 3, 7),
    ),
    ("nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, momentum={momentum}), nn.{act}())", (4, 3)),
    (
        "nn.Sequential(nn.ConvTranspose2d(3, 4, 2, stride=2), nn.InstanceNorm2d(4, track_running_stats=True), nn.{act}())",
        (2, 3, 4, 4),
    ),
    (
        "nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.{act}(), nn.Conv2d(4, 3, 3, padding=1), nn.BatchNorm2d(3))",
        (2, 3, 4, 4),
    ),
    (
        "nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.MaxPool2d(2), nn.{act}(), nn.Flatten(), nn.LazyLinear(2))",
        (2, 3, 9, 9),
    ),
    (
        "nn.Sequential(nn.Conv3d(2, 3, 2), nn.BatchNorm3d(3, momentum={momentum}), nn.{act}())",
        (1, 2, 3, 3, 4),
    ),
    ("nn.SyncBatchNorm(3)", (2, 3, 4)),
]
CHANGES = [
    "for p in m.parameters():\n    p.data.mul_(1.5)",
    "for x in m.buffers():\n    x.add_(1)",
    "for x in m.buffers():\n    x.zero_()",
    "for p in m.parameters():\n    p.data = p.data + 0.1",
    "m.load_state_dict({key: x + 1 for key, x in m.state_dict().items()})",
    "m.train(not m.training)",
    "for one in m.modules():\n    if hasattr(one, 'reset_running_stats'):\n        one.reset_running_stats()",
    "for one in m.modules():\n    if hasattr(one, 'running_mean') and one.running_mean is not None:\n        one.running_mean = one.running_mean * 2",
    "for one in m.modules():\n    if hasattr(one, 'running_var') and one.running_var is not None:\n        one.running_var.data[:1] = 0",
    "m.to(memory_format=torch.channels_last) if x.dim() == 4 else None",
    "x = x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x",
    "for one in m.modules():\n    if hasattr(one, 'eps'):\n        one.eps = 0.5",
]


def evaluated(b):
    """Convolution and norm in training and evaluation, where parameters and statistics change between calls."""
    rng = b.rng
    text, shape = rng.choice(LAYERS)
    if "Lazy" in text:
        text = text.replace(", nn.LazyLinear(2)", "")
    text = text.format(
        mode=rng.choice(["zeros", "reflect", "replicate", "circular"]),
        momentum=rng.choice(["0.1", "None", "1.0", "0.3"]),
        affine=rng.choice(["True", "False"]),
        act=rng.choice(["ReLU", "GELU", "SiLU", "Hardswish", "Identity", "LeakyReLU", "Sigmoid"]),
    )
    name, out = b.name("m"), b.name("k")
    b.add(f"{name} = module({text}, {rng.randrange(99)})")
    if name not in b.namespace:
        return
    rounds = rng.choice([2, 3, 7])
    train = rng.choice(["True", "False", "i < 2", "i % 2 == 0"])
    mode = rng.choice(["torch.no_grad()", "torch.enable_grad()", "torch.inference_mode()"])
    change = rng.choice(CHANGES)
    take = rng.choice(
        [
            f"{out}.append(y.detach())",
            f"{out}.append(y.sum().item())",
            f"{out}.append(y.detach().clone())",
        ]
    )
    lines = [
        f"{out} = []",
        f"m, x = {name}, normal({shape_text(shape)}, {rng.randrange(99)})",
        f"for i in range({rounds}):",
        f"    m.train({train})",
        f"    with {mode}:",
        "        y = m(x)",
        f"    {take}",
        f"    if {rng.choice(['i == 0', 'True', 'i % 2', 'i == 5'])}:",
        *(f"        {line}" for line in change.split("\n")),
    ]
    if mode == "torch.enable_grad()" and rng.random() < 0.5:
        lines.insert(7, "    y.square().sum().backward() if y.requires_grad else None")
    b.add("\n".join([*lines, "del m, x, y"]))


STEPS = {convolution: 10, pool: 6, norm: 8, resize: 4, evaluated: 6}
