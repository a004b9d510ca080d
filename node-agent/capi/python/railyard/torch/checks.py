"""What cannot be, told in the words of PyTorch's own backends: programs and PyTorch's tests look for them."""


def only(tensors):
    """The one tensor of a list: process groups of one device for each rank have no more."""
    if len(tensors) != 1:
        raise ValueError(f"backend rail: requires a single-element tensor list, got {len(tensors)}")
    return tensors[0]


def alone(tensors):
    """The one tensor of a list of those that are reduced or sent to all, of which there must not be several kinds."""
    if not tensors:
        raise ValueError("backend rail: requires non-empty tensor list")
    like(tensors, tensors[0])
    return only(tensors)


def tag(number):
    """A message's tag, as all of PyTorch's backends take them."""
    if number < 0:
        raise ValueError(f"backend rail: Tag must be nonnegative, got {number}")
    if number > 0x7FFF_FFFF:
        raise ValueError(f"backend rail: tag {number} is too large: at most {0x7FFF_FFFF}")


def root(opts, size):
    """The root that options name."""
    if not 0 <= opts.rootRank < size:
        raise ValueError(f"backend rail: invalid root rank: {opts.rootRank} of {size}")
    return opts.rootRank


def root_tensor(opts, tensors):
    """The options name a tensor that there is."""
    if not 0 <= opts.rootTensor < len(tensors):
        raise ValueError(f"backend rail: invalid root tensor: {opts.rootTensor} of {len(tensors)}")


def like(tensors, one, *, sizes=True):
    """All tensors are of the type and the size of `one`."""
    for at, tensor in enumerate(tensors):
        if tensor.dtype != one.dtype:
            raise ValueError(f"backend rail: invalid tensor type at index {at} (expected {one.dtype}, got {tensor.dtype})")
        if sizes and tensor.shape != one.shape:
            raise ValueError(
                f"backend rail: invalid tensor size at index {at} (expected {tuple(one.shape)}, got {tuple(tensor.shape)})"
            )


def together(tensors):
    """Tensors of one coalesced operation."""
    if not tensors:
        raise ValueError("backend rail: requires non-empty tensor list")
    if any(tensor.layout != tensors[0].layout for tensor in tensors):
        at = next(at for at, tensor in enumerate(tensors) if tensor.layout != tensors[0].layout)
        raise ValueError(f"backend rail: invalid tensor layout at index {at}: tensors must all have the same layout")
    if any(tensor.dtype != tensors[0].dtype for tensor in tensors):
        raise ValueError("backend rail: tensors must all have the same type")


def lists(outputs, inputs, what, size):
    """One output list for one input, and a tensor in it for each rank."""
    if not inputs:
        raise ValueError(f"backend rail: {what}: requires non-empty input tensor list")
    if len(outputs) != len(inputs):
        raise ValueError(f"backend rail: {what}: requires input/output tensor lists to have the same length")
    for at, each in enumerate(outputs):
        if len(each) != size:
            raise ValueError(f"backend rail: {what}: invalid output tensor list at index {at} (expected length {size}, got {len(each)})")


def on_root(tensor_lists, kind, rank, root_rank, size):
    """The one list that the root, and nobody else, gives: of outputs of a gather, of inputs of a scatter. None elsewhere."""
    if rank != root_rank:
        if tensor_lists and tensor_lists[0]:
            raise ValueError(f"backend rail: requires empty {kind} on non-root")
        return None
    if len(tensor_lists) != 1:
        raise ValueError(f"backend rail: requires a single-element {kind} list containing a list with {size} tensors")
    if len(tensor_lists[0]) != size:
        raise ValueError(f"backend rail: Incorrect {kind} list size {len(tensor_lists[0])}. {kind} list size should be {size}")
    return tensor_lists[0]


def single(tensors, kind):
    """The one tensor that each rank gives to a gather, or gets from a scatter."""
    if len(tensors) != 1:
        raise ValueError(f"backend rail: requires a single-element {kind} tensor list, got {len(tensors)}")
    return tensors[0]
