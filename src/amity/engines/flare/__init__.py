"""The engine over NVIDIA FLARE: messages between organisations, over mutual TLS."""
