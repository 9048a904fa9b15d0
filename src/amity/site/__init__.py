"""What an organisation that takes part has on its own machine: its configuration, its data, its worker, its results."""
