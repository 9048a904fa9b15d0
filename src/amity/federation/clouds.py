"""The cloud models of a round: what each silo was sent, for methods whose second output they are."""

from __future__ import annotations

from collections.abc import Sequence

from amity.contract import Clouded, Download, Method, Model, nbytes

MOST_CLOUDS = 2**30  # bytes of cloud models that are kept beside all that a round needs


def clouds_of(method: Method, asked: Sequence[int], down: Download) -> tuple[dict[int, Model] | None, list[str]]:
    """Copies of the cloud models that silos are sent, where the method has such; or a note that they are too large."""
    if not isinstance(method, Clouded) or not asked:
        return None, []
    size = len(asked) * nbytes(method.cloud_model(down.to(0)))
    if size > MOST_CLOUDS:
        return None, [f"cloud models are not kept: they take {size / 2**30:.1f} GiB, the limit is 1"]
    sent = {client: method.cloud_model(down.to(place)) for place, client in enumerate(asked)}
    return {client: {key: value.clone() for key, value in model.items()} for client, model in sent.items()}, []
