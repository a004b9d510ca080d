"""What PyTorch calls at the end of `import torch`, by the entry point `torch.backends`."""


def autoload() -> None:
    """Makes PyTorch know the backend "rail". Whatever is missing shows when it is used, not in every `import torch`."""
    try:
        import torch.distributed

        if torch.distributed.is_available():
            import railyard.torch  # noqa: F401  (registers itself)
    except ImportError:
        pass
