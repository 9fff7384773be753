"""Adam written out goes where torch's goes."""

from __future__ import annotations

import torch

from oblivec.calibration.adam import Adam


def test_it_goes_where_the_library_goes() -> None:
    start, wanted = torch.tensor([[3.0, -2.0, 0.5, 0.0], [1.0, 1.0, -40.0, 0.0]], dtype=torch.float64)
    theirs = start.clone().requires_grad_()
    optimiser = torch.optim.Adam([theirs], lr=0.1)
    ours, adam = start, Adam()
    for _ in range(50):
        optimiser.zero_grad()
        (theirs - wanted).square().sum().backward()
        optimiser.step()
        ours = ours - 0.1 * adam.way(2 * (ours - wanted))
        assert torch.allclose(ours, theirs.detach(), rtol=0, atol=1e-9)  # in double precision
