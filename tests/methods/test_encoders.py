"""A method runs on every encoder that can do what the method requires; other encoders are an error."""

import pytest
from small import TINY_METHOD

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve


@pytest.mark.parametrize(("method", "ability"), [("slim", "replace-tokens"), ("mamp", "drop-tokens")])
def test_an_encoder_without_a_required_ability_is_an_error(method, ability, data_root, host):
    sets = {f"method.{key}": value for key, value in TINY_METHOD[method].items()} | {"encoder": "stgcn"}
    request = Request(method, dataset="small", clip_length=32, patch=8, epochs=1, batch_size=4, sets=sets)
    with pytest.raises(SkelbenchError, match=rf"method {method} needs .*\({ability}\), which stgcn"):
        resolve(request, host, data_root, "cpu")
