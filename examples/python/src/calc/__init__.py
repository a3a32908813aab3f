"""Small statistics."""


def mean(values):
    """Returns the arithmetic mean of at least one number."""
    return sum(values) / len(values)


def median(values):
    """Returns the middle of at least one number; of an even count, the mean of the two middles."""
    ordered = list(values)
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return mean(ordered[half - 1 : half + 1])
