"""The matrix: what is trained by whom, and what is hoped for.

The contestants that say most stand first: where the time of a case is up, the others have none.  Whole models are
compiled where the mask that transformers makes then is the point; layers elsewhere, which takes seconds.

Sizes are those of published models, weights are drawn.  Targets are what `docs/benchmarks.md` gives reasons for.
"""

from __future__ import annotations

from patchgen.bench.cases.bert import B1, B2, B2_AMP, B3
from patchgen.bench.cases.decoders import G1, L1, L2, L2_AMP, L3
from patchgen.bench.cases.experts import M1, M2
from patchgen.bench.cases.legacy import X1_BLOOM, X1_MEGATRON, X1_MPNET, X1_ROWS, X1_XGLM

CASES = (B1, B2, B2_AMP, B3, L1, L2, L2_AMP, L3, G1, M1, M2, X1_MPNET, X1_ROWS, X1_BLOOM, X1_MEGATRON, X1_XGLM)
