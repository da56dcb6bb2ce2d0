# SPDX-License-Identifier: Apache-2.0
"""HydraMix: sequence mixers as structured matrices, and Hydra, the bidirectional state-space model.

    from hydramix import Hydra             # in place of: from hydra import Hydra
    layer = Hydra(d_model=768)
    y = layer(u, attention_mask=mask)      # u (B, L, 768), on the CPU or a GPU, any length

``Hydra`` has the signature, the parameter names and the defaults of the published class.
``Block`` is the same block around any registered mixer; ``mixers()`` lists them.
``HydraEncoder``, ``HydraForMaskedLM`` and ``HydraForSequenceClassification`` open and save the
folders of the ``hydramix`` command. ``Tokenizer`` is BERT's WordPiece.

Errors: TypeError for a wrong type or dtype, ValueError for a wrong value or shape, RuntimeError for
everything that fails later, such as a damaged file.
"""

from . import _library  # noqa: F401  loads the operators

from . import language
from .block import Block, MixerInfo, mixers
from .files import load_file
from .hydra import Hydra
from .models import (HydraEncoder, HydraForMaskedLM, HydraForSequenceClassification, ModelOutput)
from .tokenizer import Tokenizer

__version__ = _library.VERSION
__all__ = ["Block", "Hydra", "HydraEncoder", "HydraForMaskedLM", "HydraForSequenceClassification",
           "MixerInfo", "ModelOutput", "Tokenizer", "language", "load_file", "mixers"]
