"""The coordinator's side of a real federation: what a run is to be, before silos are asked."""
