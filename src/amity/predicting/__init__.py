"""Personal models in use: facts kept beside them, new examples in, predictions out, exports and cards.

    facts.py        what has to be kept with a model, so that it can be used later
    model.py        from these facts to a module, and from its outputs to predictions
    examples.py     files of new examples, seen as the model saw those of its training; table.py reads csv and parquet
    predictions.py  what a model says, and how right it was where the truth is known; writing.py: as csv, parquet, JSON
    outcomes.py     what the models of a run say about their silos' test examples: `predictions/<silo>.npz`
    export.py       the model as a file for others: safetensors, torch, ONNX (onnx.py)
    card.py         the model card, in plain English

A run of the simulator and a silo of its own share all of it.
"""
