"""Settings for all tests: one thread per process; property tests draw the same examples each time."""

import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)

# No deadline: the first call into torch is slow. Derandomized: a failure is found again by running it again.
settings.register_profile(
    "amity",
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("amity")
