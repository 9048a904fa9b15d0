"""FedAMP: the invariants AMP-1 to AMP-11 of the specification, and rounds by hand.

TRIANGLE has squared distances 1 (clients 0, 1), 4 (0, 2) and 5 (1, 2); with sigma = 1 / ln 2 they weigh
2^-1, 2^-4 and 2^-5, and A'(t) = ln 2 * 2^-t.
"""

import math
from typing import Any, Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from methods.points import (
    HALVING,
    TRIANGLE,
    ask,
    client_at,
    draws,
    facts,
    holding,
    message,
    models,
    point,
    sent_by,
    turn,
    vector,
)
from small import near, run
from torch import Tensor

from amity.contract import InputError, Solver
from amity.learn.train import train
from amity.learn.vectors import squared_distances
from amity.methods import fedamp
from amity.methods._attention import ATTRACTIONS, gradient_step, negexp
from amity.methods.fedamp import FedAMP
from amity.methods.separate import Separate

sigmas = st.floats(1e-2, 1e3)
alphas = st.floats(1e-2, 10)
functions: st.SearchStrategy[Any] = st.sampled_from(sorted(ATTRACTIONS))
factors: st.SearchStrategy[Literal[1, 2]] = st.sampled_from([1, 2])
on_negatives: st.SearchStrategy[Literal["shrink", "raw"]] = st.sampled_from(["shrink", "raw"])
self_weights: st.SearchStrategy[Literal["softmax"] | float] = st.one_of(st.just("softmax"), st.floats(0, 1))


@st.composite
def theories(draw: st.DrawFn) -> FedAMP:
    return FedAMP(
        mode="theory",
        function=draw(functions),
        sigma=draw(sigmas),
        alpha=draw(alphas),
        grad_factor=draw(factors),
        on_negative=draw(on_negatives),
    )


@st.composite
def normaliseds(draw: st.DrawFn) -> FedAMP:
    own = draw(self_weights)
    return FedAMP(function=draw(functions), sigma=draw(sigmas), self_weight=own)


def distances(w: Tensor) -> Tensor:
    """Squared, straight from the definition."""
    return ((w[:, None] - w[None]) ** 2).sum(2)


def pair_term(function: str, sigma: float, w: Tensor) -> Tensor:
    """sum_{i<j} A(d_ij^2)"""
    return ATTRACTIONS[function](sigma).value(distances(w)).triu(1).sum()


def test_the_equations_have_the_papers_numbers() -> None:
    text = fedamp.__doc__ or ""
    cited = {line.split()[0]: line.split()[-1] for line in text.splitlines() if line.endswith(")")}
    assert (cited["G(W)"], cited["u_i"], cited["w_i"]) == ("(1)", "(5)", "(6)")
    assert "is ours" in text.split("alpha_k falls by thirds")[1]


@given(method=st.one_of(theories(), normaliseds()), w=models())
def test_amp_1_rows_sum_to_one(method: FedAMP, w: Tensor) -> None:
    weights = ask(method, w).weights
    size = weights.abs().sum(1)  # of what cancels in raw rows
    assert ((weights.sum(1) - 1).abs() <= 1e-13 * (1 + size)).all()
    if method.mode == "normalised":
        assert (weights >= 0).all()


@given(method=theories(), w=models())
def test_amp_2_theory_is_symmetric_and_keeps_the_mean(method: FedAMP, w: Tensor) -> None:
    sent = ask(method, w)
    assert near(sent.weights, sent.weights.T)
    assert near(sent.weights.sum(0), torch.ones(len(w), dtype=torch.float64), 1e-9)
    assert near(sent.each["params"].mean(0), w.mean(0), 1e-9)


@given(method=theories(), w=models())
def test_amp_2_theory_is_a_step_along_the_laplacian(method: FedAMP, w: Tensor) -> None:
    sent = ask(method, w)
    slopes = ATTRACTIONS[method.function](method.sigma).slope(distances(w)).fill_diagonal_(0)
    laplacian = torch.diag(slopes.sum(1)) - slopes
    alpha: float | Tensor = method.alpha
    if method.on_negative == "shrink" and method.grad_factor * alpha * slopes.sum(1).max() > 1:
        alpha = 1 / (method.grad_factor * slopes.sum(1).max())
    assert near(sent.each["params"], w - method.grad_factor * alpha * laplacian @ w, 1e-9)


@given(w=models(), function=st.sampled_from(["negexp", "mcp", "scad"]), factor=factors)
def test_amp_3_theory_with_a_wide_scale_does_not_mix(w: Tensor, function: Any, factor: Any) -> None:
    method = FedAMP(mode="theory", function=function, sigma=1e14, alpha=1.0, grad_factor=factor)
    assert near(ask(method, w).weights, torch.eye(len(w), dtype=torch.float64), 1e-12)


@given(w=models(2), function=functions, own=st.floats(0, 1))
def test_amp_4_normalised_with_a_wide_scale_is_uniform(w: Tensor, function: Any, own: Any) -> None:
    m = len(w)
    expected = torch.full((m, m), (1 - own) / (m - 1), dtype=torch.float64).fill_diagonal_(own)
    assert near(ask(FedAMP(function=function, sigma=1e14, self_weight=own), w).weights, expected)
    sent = ask(FedAMP(function=function, sigma=1e14, self_weight=1 / m), w)
    assert near(sent.each["params"], w.mean(0).expand(m, -1))


def test_amp_5_normalised_with_a_narrow_scale_turns_to_the_nearest() -> None:
    # On a line at 0, 1, 3, 5: the nearest of 0 is 1, of 1 is 0, of 5 is 3; 3 has 1 and 5 at equal distance.
    w = vector(0, 1, 3, 5)[:, None]
    expected = torch.tensor([[1, 3, 0, 0], [3, 1, 0, 0], [0, 1.5, 1, 1.5], [0, 0, 3, 1]], dtype=torch.float64) / 4
    assert near(ask(FedAMP(sigma=1e-3, self_weight=0.25), w).weights, expected)
    assert near(ask(FedAMP(sigma=1e-3), w).weights, torch.eye(4, dtype=torch.float64))


@given(
    places=st.sets(st.integers(-300, 300), min_size=2, max_size=6).map(sorted),
    apart=st.floats(1, 1e6),
    sigma=st.floats(1e-9, 1e-3),
)
def test_amp_5_holds_where_all_weights_underflow(places: list[int], apart: float, sigma: float) -> None:
    w = apart * torch.tensor(places, dtype=torch.float64)[:, None]
    weights = ask(FedAMP(sigma=sigma, self_weight=0.5), w).weights
    assert weights.isfinite().all()
    gaps = torch.tensor(places)[:, None].sub(torch.tensor(places)).abs().fill_diagonal_(10**6)
    nearest = gaps == gaps.amin(1, keepdim=True)
    assert near(weights.diagonal(), torch.full((len(w),), 0.5, dtype=torch.float64))
    assert near((weights * nearest).sum(1), torch.full((len(w),), 0.5, dtype=torch.float64))


@pytest.mark.parametrize("function", ["mcp", "scad"])
def test_compact_attention_out_of_reach_keeps_the_own_model(function: Any) -> None:
    # s = t / sigma is 1/2 between the first two and at least 50 elsewhere: beyond the reach 3 (mcp) and 3.7 (scad).
    w = vector(0, 1, 11)[:, None]
    for own in (0.25, "softmax"):
        weights = ask(FedAMP(function=function, sigma=2.0, self_weight=own), w).weights
        assert torch.equal(weights[2], vector(0, 0, 1))
        assert (weights[:2, :2] > 0).all() and weights[0, 2] == weights[1, 2] == 0
    apart = ask(FedAMP(function=function, sigma=0.1, self_weight=0.25), w)
    assert torch.equal(apart.each["params"], w)
    theory = ask(FedAMP(mode="theory", function=function, sigma=0.1, on_negative="error"), w)
    assert torch.equal(theory.each["params"], w)


@given(w=models(), function=functions, sigma=sigmas)
def test_amp_6_full_self_weight_or_no_step_changes_nothing(w: Tensor, function: Any, sigma: Any) -> None:
    sent = ask(FedAMP(function=function, sigma=sigma, self_weight=1.0), w)
    assert torch.equal(sent.each["params"], w)
    still = gradient_step(ATTRACTIONS[function](sigma).slope(squared_distances(w)), 0.0)
    assert torch.equal(still, torch.eye(len(w), dtype=torch.float64))


@given(w=models(2, 2), function=st.sampled_from(["negexp", "pseudo_huber"]), sigma=sigmas, own=st.floats(0, 1))
def test_amp_7_of_two_clients_the_other_gets_the_rest(w: Tensor, function: Any, sigma: Any, own: Any) -> None:
    weights = ask(FedAMP(function=function, sigma=sigma, self_weight=own), w).weights
    assert near(weights, torch.tensor([[own, 1 - own], [1 - own, own]], dtype=torch.float64))


@pytest.mark.parametrize("function", ATTRACTIONS)
def test_amp_8_the_exact_factor_steps_along_the_gradient_of_the_pair_term(function: Any) -> None:
    w = torch.randn(5, 3, generator=draws("w", 0), dtype=torch.float64)
    gradient, h = torch.empty_like(w), 1e-5
    for place in range(w.numel()):
        shift = torch.zeros(w.numel(), dtype=torch.float64)
        shift[place] = h
        up, down = (pair_term(function, 4.0, w + sign * shift.view_as(w)) for sign in (1, -1))
        gradient.view(-1)[place] = (up - down) / (2 * h)
    for factor in (1, 2):
        method = FedAMP(mode="theory", function=function, sigma=4.0, alpha=0.3, grad_factor=factor, on_negative="raw")
        moved = (w - ask(method, w).each["params"]) / 0.3
        assert near(moved, gradient * factor / 2, 1e-8)
    assert gradient.abs().max() > 0.1


@given(w=models(2), function=functions, sigma=sigmas, share=st.floats(0.01, 1))
def test_amp_9_a_short_step_does_not_raise_the_pair_term(w: Tensor, function: Any, sigma: Any, share: float) -> None:
    # The curvature of A(|x|^2) is at most 2 A'(0), and the Laplacian of m points has eigenvalues up to m.
    lipschitz = 2 * len(w) * ATTRACTIONS[function](sigma).slope(vector(0)).item()
    alpha = share / lipschitz
    method = FedAMP(mode="theory", function=function, sigma=sigma, alpha=alpha, grad_factor=2, on_negative="raw")
    u = ask(method, w).each["params"]
    before = pair_term(function, sigma, w)
    assert pair_term(function, sigma, u) <= before + 1e-12 * (1 + before)


def test_amp_10_without_pull_the_client_trains_plainly_from_the_cloud_model() -> None:
    method = FedAMP(alpha=1e300)
    down = {key: value[0] for key, value in message(vector(1, -2)[None]).items()}
    go = turn(torch.randn(7, 2, generator=draws("x", 0), dtype=torch.float64), 0.1, epochs=3, batch=2)
    _, upload = method.local(point(2), client_at(method, vector(5, 5)), down, go)
    plain = train(point(2), down, go)["params"]
    assert torch.equal(upload["params"], plain)
    _, pulled = FedAMP(alpha=1.0).local(point(2), client_at(method, vector(5, 5)), down, go)
    assert not near(pulled["params"], plain, 1e-3)


@given(
    offsets=st.lists(st.tuples(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5)), min_size=4, max_size=6),
    own=st.one_of(st.just("softmax"), st.floats(0, 1)),
)
def test_amp_11_two_clusters_give_a_block_diagonal(offsets: list[tuple[float, float]], own: Any) -> None:
    # Within a cluster d^2 <= 2, between them d^2 >= 9^2: with sigma = 2 ratios are at most exp(1 - 40.5).
    w = torch.tensor(offsets, dtype=torch.float64)
    cluster = torch.arange(len(w)) % 2
    w[:, 0] += 10 * cluster
    weights = ask(FedAMP(sigma=2.0, self_weight=own), w).weights
    assert (weights[cluster[:, None] != cluster] < 1e-6).all()
    if own == "softmax":
        assert (weights[cluster[:, None] == cluster] > 0.1).all()


def test_one_round_by_hand() -> None:
    # Row 0 goes as 1, 2^-1, 2^-4; row 1 as 2^-1, 1, 2^-5; row 2 as 2^-4, 2^-5, 1.
    method = FedAMP(sigma=HALVING, attraction=2.0, alpha=4.0)
    server = holding(method, TRIANGLE)
    sent = sent_by(method, server, torch.arange(3), 1)
    rows = torch.stack([vector(16, 8, 1) / 25, vector(16, 32, 1) / 49, vector(2, 1, 32) / 35])
    assert near(sent.weights, rows)
    assert near(sent.each["params"], torch.stack([vector(8, 2) / 25, vector(32, 2) / 49, vector(1, 64) / 35]))
    # Client 0: u = (0.32, 0.08), data with mean (1.32, 0.08), pull 2/4, rate 0.1. Let e = u - mean = (-1, 0).
    # w' - mean = 0.9 e; w'' - mean = 0.9 e - 0.1 (0.9 e + 0.5 (0.9 - 1) e) = 0.815 e, so w'' = (0.505, 0.08).
    data = torch.stack([vector(0.32, 0.18), vector(2.32, -0.02)])
    state, upload = method.local(point(2), client_at(method, TRIANGLE[0]), sent.to(0), turn(data, 0.1, epochs=2))
    assert near(upload["params"], vector(0.505, 0.08))
    assert torch.equal(method.personal(point(2), state, None, turn(data, 0.1))["params"], upload["params"])
    # From its own model (0, 0), one step: 0.1 ((1.32, 0.08) + 0.5 (0.32, 0.08)) = (0.148, 0.012).
    own = FedAMP(sigma=HALVING, attraction=2.0, alpha=4.0, start="own")
    _, stayed = own.local(point(2), client_at(own, TRIANGLE[0]), sent.to(0), turn(data, 0.1))
    assert near(stayed["params"], vector(0.148, 0.012))
    # Only client 0 was heard: the others' models stay.
    after = method.aggregate(server, torch.tensor([0]), message(upload["params"][None]), 1)
    assert near(after["params"], torch.stack([vector(0.505, 0.08), TRIANGLE[1], TRIANGLE[2]]))


@pytest.mark.parametrize(("own", "row"), [(0.25, [9, 24, 3]), (0.0, [0, 32, 4]), ("softmax", [23.04, 11.52, 1.44])])
def test_self_weight_by_hand(own: Any, row: list[float]) -> None:
    # Client 0: the others share the rest 8 to 1; here in parts of 36.
    assert near(ask(FedAMP(sigma=HALVING, self_weight=own), TRIANGLE).weights[0], vector(*row) / 36)


@pytest.mark.parametrize(("counts_self", "own"), [(False, [1 / 2, 1 / 2, 1]), (True, [1 / 3, 1 / 3, 1 / 2])])
def test_group_self_weight_by_hand(counts_self: bool, own: list[float]) -> None:
    # Clients 0 and 1 are of one group, 2 is alone: N = 1, 1, 0 others, or 2, 2, 1 with themselves.
    method = FedAMP(sigma=HALVING, self_weight="group", group_counts_self=counts_self)
    weights = ask(method, TRIANGLE, fed=facts(3, groups=[4, 4, 9])).weights
    others = torch.stack([vector(0, 8, 1) / 9, vector(16, 0, 1) / 17, vector(2, 1, 0) / 3])
    assert near(weights, others * (1 - vector(*own))[:, None] + torch.diag(vector(*own)))


@pytest.mark.parametrize("factor", [1, 2])
def test_theory_weights_by_hand(factor: Any) -> None:
    # alpha = 1 / (8 ln 2): alpha A'(t) = 2^-t / 8, so 1/16, 1/128 and 1/256, or twice that.
    method = FedAMP(mode="theory", sigma=HALVING, alpha=HALVING / 8, grad_factor=factor, on_negative="error")
    sent = ask(method, TRIANGLE)
    others = factor * torch.stack([vector(0, 16, 2), vector(16, 0, 1), vector(2, 1, 0)]) / 256
    own = 1 - factor * vector(18, 17, 3) / 256
    assert near(sent.weights, others + torch.diag(own))
    assert sent.notes == ()


# alpha = 4 / ln 2: alpha A' is 2, 1/4 and 1/8; the others' weights sum to 9/4, 17/8 and 3/8.
STEEP: dict[str, Any] = {"mode": "theory", "sigma": HALVING, "alpha": 4 * HALVING}


@pytest.mark.parametrize("factor", [1, 2])
def test_a_negative_self_weight_shrinks_the_step_by_hand(factor: Any) -> None:
    # All by 4/9 (or 2/9 of the doubled): 8/9, 1/9 and 1/18; self weights 0, 1/18 and 15/18. Of lambda 9 remain 4 (2).
    sent = ask(FedAMP(**STEEP, attraction=9.0, grad_factor=factor), TRIANGLE)
    assert near(sent.weights, torch.stack([vector(0, 16, 2), vector(16, 1, 1), vector(2, 1, 15)]) / 18)
    (note,) = sent.notes
    assert "shrunk" in note and note.endswith(f"effective lambda {4 // factor}")


def test_a_negative_self_weight_as_it_is_by_hand() -> None:
    sent = ask(FedAMP(**STEEP, on_negative="raw"), TRIANGLE)
    assert near(sent.weights, torch.stack([vector(-10, 16, 2), vector(16, -9, 1), vector(2, 1, 5)]) / 8)
    # Client 0: 2 (1, 0) + (0, 2)/4
    assert near(sent.each["params"][0], vector(2, 0.5))


def test_a_negative_self_weight_can_be_refused() -> None:
    # The largest step is 4/9 of 4 / ln 2.
    with pytest.raises(InputError, match=r"self weight >= 0, but the step 5.77\d* exceeds 2.56\d*: .*on_negative"):
        ask(FedAMP(**STEEP, on_negative="error"), TRIANGLE)


def test_a_shrunk_step_leaves_no_negative_weight() -> None:
    rng = draws("shrink", 0)
    for clients in range(2, 42):
        w = torch.randn(clients, 3, generator=rng, dtype=torch.float64)
        assert (ask(FedAMP(mode="theory"), w).weights >= 0).all()


def test_the_sufficient_scale_is_accepted_at_its_boundary() -> None:
    # A' <= 1/sigma, so sigma >= gf alpha (m - 1) suffices; equal models attain it.
    for clients in range(2, 22):
        method = FedAMP(mode="theory", sigma=clients - 1.0, alpha=1.0, on_negative="error")
        sent = ask(method, torch.ones(clients, 2, dtype=torch.float64))
        assert near(sent.weights.diagonal(), torch.zeros(clients, dtype=torch.float64))


@pytest.mark.parametrize(("round", "decay"), [(1, 1), (30, 1), (31, 0.1), (60, 0.1), (61, 0.01), (90, 0.01)])
def test_the_step_size_falls_by_thirds_at_the_server_and_at_the_client(round: int, decay: float) -> None:
    method = FedAMP(mode="theory", sigma=HALVING, alpha=HALVING / 8, start="own")
    weights = ask(method, TRIANGLE, round=round, fed=facts(3, rounds=90)).weights
    assert weights[0, 1].item() == pytest.approx(decay / 16, rel=1e-10)
    # F is flat at its minimum w = 1; the pull towards u = 0 alone moves w: 1 - rate * lambda / alpha_k.
    data = torch.ones(1, 1, dtype=torch.float64)
    cloud_model = {key: value[0] for key, value in message(vector(0)[None]).items()}
    go = turn(data, 1e-3, round=round)
    _, upload = method.local(point(1), client_at(method, vector(1), rounds=90), cloud_model, go)
    assert near(upload["params"], vector(1 - 1e-3 * 8 * math.log(2) / decay))


def test_started_from_its_own_model_with_the_published_values_it_is_nearly_separate() -> None:
    # Erratum A3: lambda / alpha = 1e-4 moves nothing; what collaboration there is flows through the start.
    solver = Solver("sgd", 0.05, batch=4)
    alone = run(Separate(), solver=solver, rounds=3)[-1]
    own, cloud = (run(FedAMP(start=start), solver=solver, rounds=3)[-1] for start in ("own", "cloud"))
    for client in range(5):
        here, there, here_too = (report.personal(client)["params"] for report in (alone, cloud, own))
        assert (here_too - here).abs().max() < 1e-2
        assert (there - here).abs().max() > 10 * (here_too - here).abs().max()


@pytest.mark.parametrize(
    "options",
    [{"sigma": 0.0}, {"self_weight": 1.5}, {"self_weight": "pool"}, {"grad_factor": 3}, {"alpha": 0.0}],
)
def test_refused_options(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"fedamp needs {next(iter(options))} to be"):
        FedAMP(**options)


def test_negexp_is_the_softmax_of_distances() -> None:
    w = torch.randn(4, 3, generator=draws("s", 0), dtype=torch.float64)
    expected = torch.softmax(-distances(w) / 2.5, dim=1)
    assert near(ask(FedAMP(sigma=2.5), w).weights, expected)
    assert near(negexp(2.5).slope(distances(w)), torch.exp(-distances(w) / 2.5) / 2.5)
