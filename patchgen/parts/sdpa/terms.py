"""One mask out of all that is added to scores or hides them."""

import torch


def sum_of_terms(
    terms: list[torch.Tensor], query_BHLD: torch.Tensor, key_BHSD: torch.Tensor
) -> torch.Tensor | None:
    """One mask (B, H, L, S), or what broadcasts to it; None without terms.

    It is bool where all terms are, else float in the dtype of the query.  Each term is added to
    those before it, or hides what it is False for.
    """
    if not terms:
        return None
    terms = [windows(term, len(query_BHLD)) for term in terms]
    if all(term.dtype == torch.bool for term in terms):
        whole = terms[0]
        for term in terms[1:]:
            whole = whole & term
    else:
        least = torch.finfo(query_BHLD.dtype).min
        whole = torch.zeros((), dtype=query_BHLD.dtype, device=query_BHLD.device)
        for term in terms:
            hides = term.dtype == torch.bool
            whole = (
                torch.where(term, whole, least) if hides else (whole + term).to(query_BHLD.dtype)
            )
        if len(terms) > 1:
            # The sum of two minima is minus infinity, as in scores that are written out: softmax of
            # a row of nothing else is NaN.
            whole = whole.masked_fill((whole == -torch.inf).all(dim=-1, keepdim=True), least)
    return (
        whole.expand(-1, -1, query_BHLD.shape[2], key_BHSD.shape[2]) if whole.dim() == 4 else whole
    )


def windows(term: torch.Tensor, batch: int) -> torch.Tensor:
    """A term (1, windows, heads, L, S) of images cut into windows, as (batch, heads, L, S)."""
    if term.dim() != 5:
        return term
    return term.expand(batch // term.shape[1], -1, -1, -1, -1).flatten(0, 1)


def blank_scores(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Zeros in the form of query @ key^T, without its memory: for what reads no more than that."""
    return query.new_zeros(()).expand(*query.shape[:-1], key.shape[-2])
