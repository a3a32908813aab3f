import calc
import pytest


def test_mean():
    assert calc.mean([1, 2, 6]) == 3


@pytest.mark.parametrize("values, middle", [([1, 2, 9], 2), ([9, 1, 2], 2), ([4, 1, 3, 2], 2.5)])
def test_median(values, middle):
    assert calc.median(values) == middle
