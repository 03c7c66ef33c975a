"""PyTorch's side of bench/cuda/kernels.cu: the same kernels at the same sizes, eager and compiled, in the same table.

    python torch_kernels.py [copy|elementwise|norms|rows|training|attention|matmul] [--eager]

Timed as there: CUDA events around each of many calls, the median, two sets of arrays in turn.
"""
import statistics
import sys

import torch
import torch._functorch.config as functorch
import torch.nn.functional as F

SETS, CALLS = 2, 31
ROWS, WIDTH = 16384, 4096
N = ROWS * WIDTH
bf16, fp32 = torch.bfloat16, torch.float32
copy_rate = None
only = [a for a in sys.argv[1:] if not a.startswith("-")]
compiles = "--eager" not in sys.argv


def show(kernel, size, way, us, work, operations=False):
    global copy_rate
    rate = work / us * 1e-6
    if kernel == "copy":
        copy_rate = rate
    share = "" if operations or not copy_rate else f"{rate / copy_rate:.2f}"
    print(f"| {kernel:26} | {size:30} | {way:7} | {work * 1e-9:9.3f} | {us:9.1f} | {rate:7.3f} | {'TFLOP/s' if operations else 'TB/s':7} | {share:>5} |",
          flush=True)


def median_us(call):
    for i in range(2 * SETS):
        call(i % SETS)
    torch.cuda.synchronize()
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(CALLS)]
    for i, (begin, end) in enumerate(events):
        begin.record()
        call(i % SETS)
        end.record()
    torch.cuda.synchronize()
    return 1000 * statistics.median(b.elapsed_time(e) for b, e in events)


def numbers(*shape, dtype=bf16, low=-1.0, high=1.0):
    return [torch.empty(*shape, device="cuda", dtype=dtype).uniform_(low, high) for _ in range(SETS)]


def time(kernel, size, work, call, way="eager", operations=False):
    try:
        show(kernel, size, way, median_us(call), work, operations)
    except Exception as e:  # one that this PyTorch can't do leaves the others their turn
        print(f"| {kernel:26} | {size:30} | {way:7} | {str(e).splitlines()[0][:60]}", flush=True)


def forward_and_backward(kernel, size, works, f, inputs, dy, backward="backward"):
    """f of one set of inputs, and the gradient of those that ask for it; eager and compiled. works: of both."""
    for way in ("eager", "compile") if compiles else ("eager",):
        torch._dynamo.reset()
        run = torch.compile(f, dynamic=False) if way == "compile" else f
        with torch.no_grad():
            time(kernel, size, works[0], lambda s: run(*inputs[s]), way)
        if len(works) < 2:
            continue
        for tensors in inputs:
            for t in tensors:
                t.requires_grad_(t.is_floating_point())
        try:
            outs = [run(*i) for i in inputs]
            wanted = [[t for t in i if t.requires_grad] for i in inputs]
            time(f"{kernel} {backward}", size, works[1],
                 lambda s: torch.autograd.grad(outs[s], wanted[s], dy[s], retain_graph=True), way)
        finally:
            for tensors in inputs:
                for t in tensors:
                    t.requires_grad_(False)


def size(a, b, kind="bf16"):
    return f"{a} x {b} {kind}"


def copies():
    x, y = numbers(N), numbers(N)
    time("copy", size(ROWS, WIDTH), 4 * N, lambda s: y[s].copy_(x[s]))


def elementwise():
    gate, up, dy = numbers(ROWS, WIDTH, low=-4, high=4), numbers(ROWS, WIDTH), numbers(ROWS, WIDTH)
    name = size(ROWS, WIDTH)
    forward_and_backward("add", name, [6 * N], lambda a, b: a + b, list(zip(gate, up)), dy)
    forward_and_backward("swiglu", name, [6 * N, 10 * N], lambda g, u: F.silu(g) * u, list(zip(gate, up)), dy)
    forward_and_backward("gelu", name, [4 * N, 6 * N], lambda x: F.gelu(x, approximate="tanh"), [(x,) for x in gate], dy)
    forward_and_backward("convert to fp32", name, [6 * N], lambda x: x.float(), [(x,) for x in gate], dy)
    forward_and_backward("dropout", name, [4 * N], lambda x: F.dropout(x, 0.1), [(x,) for x in gate], dy)
    seq, heads, head_dim = 4096, 16, 128
    x = [t.view(-1, seq, heads, head_dim) for t in gate]
    cos, sin = numbers(seq, 1, head_dim // 2), numbers(seq, 1, head_dim // 2)

    def rope(x, cos, sin):
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    forward_and_backward("rope", "8 x 4096 x 16 x 128 bf16", [4 * N], rope, list(zip(x, cos, sin)), None)


def norms():
    for columns in (WIDTH, 768):
        lines = N // columns
        n = lines * columns
        x, w, b, dy = numbers(lines, columns), numbers(columns), numbers(columns), numbers(lines, columns)
        name = size(lines, columns)
        forward_and_backward("rms_norm", name, [4 * n, 6 * n], lambda x, w: F.rms_norm(x, (columns,), w, 1e-5), list(zip(x, w)), dy)
        forward_and_backward("layer_norm", name, [4 * n, 6 * n], lambda x, w, b: F.layer_norm(x, (columns,), w, b), list(zip(x, w, b)), dy)


def of_rows():
    x, dy = numbers(ROWS, WIDTH, low=-8, high=8), numbers(ROWS, WIDTH)
    forward_and_backward("softmax", size(ROWS, WIDTH), [4 * N, 6 * N], lambda x: torch.softmax(x, -1), [(t,) for t in x], dy)
    del x, dy
    tokens, vocab = 8192, 50304
    logits = tokens * vocab
    x = numbers(tokens, vocab, low=-4, high=4)
    ids = [torch.randint(vocab, (tokens,), device="cuda") for _ in range(SETS)]
    forward_and_backward("cross entropy", size(tokens, vocab), [2 * logits, 4 * logits], lambda x, t: F.cross_entropy(x, t), list(zip(x, ids)),
                         [torch.ones((), device="cuda", dtype=bf16)] * SETS)


def training():
    vocab = 50304
    table, dy = numbers(vocab, WIDTH), numbers(ROWS, WIDTH)
    ids = [torch.randint(vocab, (ROWS,), device="cuda") for _ in range(SETS)]
    name = f"{size(ROWS, WIDTH)} of {vocab}"
    forward_and_backward("embedding", name, [4 * N, 2 * N + 2 * vocab * WIDTH], lambda t, i: F.embedding(i, t), list(zip(table, ids)), dy)
    del table, dy
    master, first, second, g = (numbers(N, dtype=fp32) for _ in range(4))
    working = numbers(N)
    second = [t.abs_() for t in second]
    steps = [torch.ones((), device="cuda") for _ in range(SETS)]

    def adamw(s):
        torch._fused_adamw_([master[s]], [g[s]], [first[s]], [second[s]], [], [steps[s]], lr=1e-3, beta1=0.9, beta2=0.95, weight_decay=0.1,
                            eps=1e-8, amsgrad=False, maximize=False)
        working[s].copy_(master[s])

    with torch.no_grad():
        time("adamw", size(ROWS, WIDTH, "fp32"), 30 * N, adamw)
        time("sum_of_squares", size(ROWS, WIDTH, "fp32"), 4 * N, lambda s: torch.linalg.vector_norm(g[s]))


def attention():
    from torch.nn.attention import SDPBackend, sdpa_kernel
    batch, seq, heads = 4, 4096, 16
    for d in (64, 96, 128, 256):
        q, k, v, dy = ([t.transpose(1, 2) for t in numbers(batch, seq, heads, d)] for _ in range(4))
        name = f"4 x 4096 x 16 x {d} causal bf16"
        operations = 2 * seq * batch * seq * heads * d
        for way, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
            run = lambda s: F.scaled_dot_product_attention(q[s], k[s], v[s], is_causal=True)
            with sdpa_kernel(backend):
                try:
                    with torch.no_grad():
                        time("attention", name, operations, run, way, True)
                    for t in (*q, *k, *v):
                        t.requires_grad_()
                    outs = [run(s) for s in range(SETS)]
                    time("attention backward", name, 2.5 * operations,
                         lambda s: torch.autograd.grad(outs[s], (q[s], k[s], v[s]), dy[s], retain_graph=True), way, True)
                except RuntimeError as e:
                    print(f"| {'attention, or its backward':26} | {name:30} | {way:7} | {str(e).splitlines()[0][:60]}")
                for t in (*q, *k, *v):
                    t.requires_grad_(False)


def matmul():
    for m in (4096, 8192):
        a, b, c = numbers(m, m), numbers(m, m), numbers(m, m)
        name = f"{m}^3 bf16"
        time("matmul x w'", name, 2 * m**3, lambda s: torch.matmul(a[s], b[s].t(), out=c[s]), "cublas", True)
        time("matmul x w", name, 2 * m**3, lambda s: torch.matmul(a[s], b[s], out=c[s]), "cublas", True)
        wide = numbers(m, m, dtype=fp32)
        time("matmul x' dy, to fp32", name, 2 * m**3, lambda s: torch.mm(a[s].t(), b[s], out_dtype=fp32, out=wide[s]), "cublas", True)


def main():
    torch.manual_seed(1)
    functorch.donated_buffer = False  # a compiled backward is called more than once
    card = torch.cuda.get_device_properties(0)
    print(f"{card.name}, {card.multi_processor_count} multiprocessors, PyTorch {torch.__version__}\n")
    print(f"| {'kernel':26} | {'size':30} | {'by':7} | {'GB|GFLOP':>9} | {'us':>9} | {'rate':>7} | {'':7} | {'/copy':>5} |")
    print("|---|---|---|---|---|---|---|---|")
    groups = dict(elementwise=elementwise, norms=norms, rows=of_rows, training=training, attention=attention, matmul=matmul)
    copies()
    for name, group in groups.items():
        if not only or name in only:
            group()
            torch.cuda.empty_cache()


main()
