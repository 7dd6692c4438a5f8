"""What is valid and not carried out yet is refused."""

from __future__ import annotations

import pytest

from ociruntime.errors import ConfigError
from tests.unit.plan.compiling import compiled, config


@pytest.mark.parametrize("rdt", [{}, {"closID": "group"}])
def test_intel_rdt(rdt: dict[str, str]) -> None:
    """Without any member it still asks for a group of the container's own."""
    with pytest.raises(ConfigError, match="is not supported yet") as refused:
        compiled(config(linux={"intelRdt": rdt}))
    assert refused.value.where == "linux.intelRdt"
