"""The flash part: attention within sequences by each kernel, tokens out of their rows and back, what is refused."""

import copy
import importlib
import inspect

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import DataCollatorWithFlattening  # noqa: E402

from patchgen.lab.evidence import gathered  # noqa: E402
from patchgen.lab.tiny import batch, tiny_config  # noqa: E402
from patchgen.lab.weights import draw_weights  # noqa: E402
from patchgen.parts.flash import Form, attend_in_sequences, kernels, sequences  # noqa: E402
from patchgen.use.checkpointing import options_of, switch_on  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

LENGTHS = [4, 1, 0, 6]
VARIANTS = {
    "bert": "generated.bert.modeling_bert_padding_free",
    "roberta": "generated.roberta.modeling_roberta_padding_free",
    "llama": "generated.llama.modeling_llama_packed",
}
EXACT = 1e-12  # in float64, of values of size ten


def drawn(heads=4, groups=4, lengths=LENGTHS, dtype=torch.float64):
    """Query, key, value, starts, longest."""
    torch.manual_seed(0)
    total = sum(lengths)
    states = [torch.randn(total, n, 8, dtype=dtype, requires_grad=True) for n in (heads, groups, groups)]
    starts = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
    return *states, starts, max(lengths)


def written_out(query, key, value, starts, longest, form):
    """Softmax over a block-diagonal mask: every step by hand."""
    key, value = (each.repeat_interleave(query.shape[1] // each.shape[1], dim=1) for each in (key, value))
    scaling = query.shape[-1] ** -0.5 if form.scaling is None else form.scaling
    scores = torch.einsum("qhd,khd->hqk", query, key) * scaling
    place = torch.arange(len(query))
    sequence = (place[:, None] >= starts[1:]).sum(1)
    seen = sequence[:, None] == sequence
    if form.causal:
        seen &= place[:, None] >= place
    if form.window is not None:
        seen &= place[:, None] - place < form.window
    return torch.einsum("hqk,khd->qhd", scores.masked_fill(~seen, -torch.inf).softmax(-1), value)


FORMS = [Form(), Form(causal=True), Form(scaling=1.3), Form(causal=True, window=2), Form(causal=True, window=9)]
forms = pytest.mark.parametrize("form", FORMS, ids=["plain", "causal", "scaled", "window", "window of all"])


class TestReference:
    @forms
    @pytest.mark.parametrize("lengths", [LENGTHS, [5, 5, 5]], ids=["ragged", "equal"])
    @pytest.mark.parametrize("groups", [4, 2], ids=["heads", "grouped heads"])
    def test_it_is_attention_within_each_sequence(self, form, lengths, groups):
        given = drawn(groups=groups, lengths=lengths)
        weights = torch.randn_like(given[0])
        ours = attend_in_sequences(*given, form)
        gradients = torch.autograd.grad((ours * weights).sum(), given[:3])
        theirs = written_out(*given, form)
        expected = torch.autograd.grad((theirs * weights).sum(), given[:3])
        torch.testing.assert_close((ours, *gradients), (theirs, *expected), rtol=0, atol=EXACT)

    @forms
    def test_compiled_code_computes_the_same(self, form, monkeypatch):
        given = drawn()
        eager = attend_in_sequences(*given, form)
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
        torch.testing.assert_close(attend_in_sequences(*given, form), eager, rtol=0, atol=EXACT)

    def test_dropout_drops(self):
        given = drawn()
        assert not torch.equal(attend_in_sequences(*given, Form(dropout=0.5)), attend_in_sequences(*given, Form()))

    def test_window_without_causality_is_refused(self):
        with pytest.raises(NotImplementedError, match="causal"):
            attend_in_sequences(*drawn(), Form(window=3))


# The signatures that the package publishes: flash_attn/flash_attn_interface.py of Dao-AILab/flash-attention, 2.8 (with
# `block_table` since 2.5, `softcap` since 2.6) and 2.3, the first with windows.
def published_varlen(
    q,
    k,
    v,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
    block_table=None,
):
    pass


def published_varlen_of_2_3(
    q,
    k,
    v,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    return_attn_probs=False,
):
    pass


def published_rows(
    q,
    k,
    v,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    pass


# torch's documentation of 2.10, of main after it, and of 2.12.
def varlen_of_2_10(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, is_causal=False, return_aux=None):
    pass


def varlen_of_2_11(
    query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, return_aux=None, scale=None, window_size=(-1, -1)
):
    pass


def varlen_of_2_12(
    query,
    key,
    value,
    cu_seq_q,
    cu_seq_k,
    max_q,
    max_k,
    *,
    return_aux=None,
    scale=None,
    window_size=(-1, -1),
    enable_gqa=False,
    seqused_k=None,
    block_table=None,
    num_splits=None,
):
    pass


RELEASES = [varlen_of_2_10, varlen_of_2_11, varlen_of_2_12]


def in_words_of(signature, compute):
    """A stand-in that takes what `signature` takes, and computes it from the bound arguments."""
    signature_ = inspect.signature(signature)

    def call(*args, **kwargs):
        bound = signature_.bind(*args, **kwargs)
        bound.apply_defaults()
        return compute(**bound.arguments)

    call.__signature__ = signature_
    return call


def form_of(causal, window_size, scale):
    left, right = window_size
    return Form(causal or right == 0, scale, window=None if left < 0 else left + 1)


def compute_varlen(**given):
    assert given["cu_seqlens_q"].dtype == torch.int32 and isinstance(given["max_seqlen_q"], int)
    form = form_of(given["causal"], given["window_size"], given["softmax_scale"])
    starts, longest = given["cu_seqlens_k"], given["max_seqlen_k"]
    return written_out(given["q"], given["k"], given["v"], starts, longest, form)


def compute_rows(**given):
    rows, length = given["q"].shape[:2]
    form = form_of(given["causal"], given["window_size"], given["softmax_scale"])
    starts = torch.arange(rows + 1) * length
    flat = [given[name].flatten(0, 1) for name in "qkv"]
    return written_out(*flat, starts, length, form).unflatten(0, (rows, length))


def compute_in_torch(**given):
    if given["query"].shape[1] != given["key"].shape[1]:
        assert given.get("enable_gqa"), "torch refuses fewer key heads unless it is told"
    causal, window = given.get("is_causal", False), given.get("window_size", (-1, -1))
    form = form_of(causal, window, given.get("scale"))
    states = given["query"], given["key"], given["value"]
    return written_out(*states, given["cu_seq_k"], given["max_k"], form)


class TestAdapters:
    @forms
    @pytest.mark.parametrize("lengths", [LENGTHS, [5, 5, 5]], ids=["ragged", "equal"])
    @pytest.mark.parametrize("published", [published_varlen, published_varlen_of_2_3], ids=["2.8", "2.3"])
    def test_flash_attn_is_called_as_published(self, form, lengths, published, monkeypatch):
        ran = []
        for name, signature, compute in (
            ("flash_attn_varlen_func", published, compute_varlen),
            ("flash_attn_func", published_rows, compute_rows),
        ):
            note = lambda *, _f=compute, _n=name, **given: ran.append(_n) or _f(**given)  # noqa: E731
            monkeypatch.setattr(kernels, name, in_words_of(signature, note))
        monkeypatch.setattr(kernels, "fits_flash", lambda *states: True)
        given = drawn(groups=2, lengths=lengths)
        torch.testing.assert_close(
            attend_in_sequences(*given, form), kernels.by_sdpa(*given, form), rtol=0, atol=EXACT
        )
        assert ran == ["flash_attn_func" if lengths == [5, 5, 5] else "flash_attn_varlen_func"]

    @forms
    @pytest.mark.parametrize("signature", RELEASES)
    def test_torch_is_called_in_the_words_of_its_release(self, form, signature, monkeypatch):
        ran = []
        note = lambda **given: ran.append(1) or compute_in_torch(**given)  # noqa: E731
        monkeypatch.setattr(kernels, "varlen_attn", in_words_of(signature, note))
        monkeypatch.setattr(kernels, "VARLEN_OPTIONS", kernels.varlen_options())
        monkeypatch.setattr(kernels, "fits_flash", lambda *states: True)
        given = drawn(groups=2)
        torch.testing.assert_close(
            attend_in_sequences(*given, form), kernels.by_sdpa(*given, form), rtol=0, atol=EXACT
        )
        assert bool(ran) == (form.window is None or signature is not varlen_of_2_10)

    def test_the_signature_of_the_installed_torch_is_one_that_is_tested(self):
        if kernels.varlen_attn is None:
            return  # torch < 2.10 has none, and the reference runs
        known = (set(inspect.signature(each).parameters) for each in RELEASES)
        used = {"is_causal", "window_size", "scale", "enable_gqa"}
        assert kernels.VARLEN_OPTIONS & used in [each & used for each in known]

    def test_torch_has_no_dropout(self):
        assert not kernels.fits_varlen(Form(dropout=0.1))

    def test_only_half_precision_on_a_gpu_fits(self):
        assert not kernels.fits_flash(*(torch.zeros(3, 2, 8, dtype=torch.bfloat16),) * 3)


class TestSequences:
    MASK = torch.tensor([[1, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1]])

    def test_tokens_go_back_where_they_were(self):
        states = torch.randn(4, 4, 3, dtype=torch.float64)
        found = sequences.of_mask(self.MASK)
        assert found.starts_N1.tolist() == [0, 3, 5, 5, 9] and found.longest == 4 and found.padded_at_start
        flat = sequences.unpadded(states, found)
        assert flat.shape == (1, 9, 3)
        assert torch.equal(sequences.padded(flat, found, 4, 4), states * self.MASK.unsqueeze(-1))

    def test_positions_that_restart_begin_a_sequence(self):
        found = sequences.of_positions(torch.tensor([[0, 1, 2, 0, 1], [5, 6, 7, 8, 2]]))
        assert found.starts_N1.tolist() == [0, 3, 5, 9, 10] and found.longest == 4 and found.restart

    def test_positions_in_each_sequence(self):
        found = sequences.Sequences(torch.tensor([0, 3, 3, 5], dtype=torch.int32), 3)
        assert sequences.positions_in(found, 5).tolist() == [[0, 1, 2, 0, 1]]

    @pytest.mark.parametrize("starts", [[0, 3], [1, 5], [0, 4, 3, 5]], ids=["too few", "not from 0", "falling"])
    def test_lengths_that_cannot_be_are_refused(self, starts):
        with pytest.raises(ValueError, match="cu_seq_lens_q"):
            sequences.of_lengths(torch.tensor(starts), None, 5)

    def test_no_token_at_all_is_refused(self):
        with pytest.raises(ValueError, match="no token"):
            sequences.of_mask(torch.zeros(2, 3))


def pair(kind, head, **changes):
    """The parent's class and the variant's, with equal weights, in float64."""
    config = tiny_config(kind, **changes)
    config._attn_implementation = "sdpa"
    parent = getattr(importlib.import_module(f"transformers.models.{kind}.modeling_{kind}"), head)
    variant = getattr(importlib.import_module(VARIANTS[kind]), head)
    made = [each(copy.deepcopy(config)).double().eval() for each in (parent, variant)]
    draw_weights(made[0])
    made[1].load_state_dict(made[0].state_dict())
    return made


def head_of(kind):
    return "LlamaForCausalLM" if kind == "llama" else f"{kind.title()}ForMaskedLM"


def texts(kind, lengths=(4, 6, 3)):
    """Words of some texts, and the first position of this kind of model."""
    ids = batch().input_ids.flatten()[: sum(lengths)]
    return ids.split(lengths), tiny_config(kind).pad_token_id + 1 if kind == "roberta" else 0


kinds = pytest.mark.parametrize("kind", VARIANTS)


class TestPaddingFree:
    @kinds
    def test_holes_in_a_mask(self, kind):
        parent, variant = pair(kind, head_of(kind))
        given = batch()
        torch.manual_seed(0)
        mask = (torch.rand(given.input_ids.shape) > 0.3).long()
        mask[:, 5] = 1
        theirs, ours = (
            model(input_ids=given.input_ids, attention_mask=mask, use_cache=False).logits
            for model in (parent, variant)
        )
        torch.testing.assert_close(ours[mask.bool()], theirs[mask.bool()], rtol=0, atol=EXACT)

    @kinds
    def test_embeddings_instead_of_words(self, kind):
        parent, variant = pair(kind, head_of(kind))
        given = batch("right")
        states = parent.get_input_embeddings()(given.input_ids)
        asked = {"inputs_embeds": states, "attention_mask": given.attention_mask, "use_cache": False}
        theirs, ours = (model(**asked).logits for model in (parent, variant))
        torch.testing.assert_close(ours[given.real], theirs[given.real], rtol=0, atol=EXACT)

    @kinds
    @pytest.mark.parametrize("by", ["position_ids", "cu_seq_lens", "both"])
    def test_flattened_texts_are_computed_as_if_alone(self, kind, by):
        parent, variant = pair(kind, head_of(kind))
        each, first = texts(kind)
        collate = DataCollatorWithFlattening(return_flash_attn_kwargs=by != "position_ids", position_ids_start=first)
        given = dict(collate([{"input_ids": text.tolist()} for text in each]))
        labels = given.pop("labels")
        assert labels.shape == given["input_ids"].shape
        if by == "cu_seq_lens":
            del given["position_ids"]
        alone = torch.cat([parent(input_ids=text[None], use_cache=False).logits[0] for text in each])
        ours = variant(**given, use_cache=False).logits
        torch.testing.assert_close(ours[0], alone, rtol=0, atol=EXACT)

    @kinds
    def test_padding_is_zeros(self, kind):
        _, variant = pair(kind, head_of(kind))
        given = batch("left")
        out = variant.base_model(
            given.input_ids, given.attention_mask, use_cache=False, output_hidden_states=True, return_dict=True
        )
        for states in (out.last_hidden_state, *out.hidden_states):
            assert not states[~given.real].any() and states[given.real].any(-1).all()

    @kinds
    def test_a_tuple_has_what_the_output_has(self, kind):
        _, variant = pair(kind, head_of(kind))
        given = batch("right")
        asked = {"input_ids": given.input_ids, "attention_mask": given.attention_mask, "use_cache": False}
        whole, parts = variant.base_model(**asked), variant.base_model(**asked, return_dict=False)
        assert isinstance(parts, tuple) and torch.equal(parts[0], whole.last_hidden_state)

    @pytest.mark.slow
    @kinds
    def test_one_graph_without_a_mask(self, kind):
        _, variant = pair(kind, head_of(kind))
        ids = batch().input_ids
        torch._dynamo.reset()
        compiled = torch.compile(variant, backend="aot_eager", fullgraph=True)
        logits = compiled(ids, use_cache=False).logits
        torch.testing.assert_close(logits, variant(ids, use_cache=False).logits, rtol=0, atol=EXACT)

    @pytest.mark.slow
    @kinds
    def test_all_layers_in_one_graph_for_every_mask(self, kind):
        _, variant = pair(kind, head_of(kind))
        attentions = []

        def count(graph, inputs):
            attentions.append(sum("scaled_dot_product" in str(node.target) for node in graph.graph.nodes))
            return graph.forward

        torch._dynamo.reset()
        compiled = torch.compile(variant, backend=count)
        for length in (13, 14, 17, 19):
            given = batch("right", length=length)
            asked = {"input_ids": given.input_ids, "attention_mask": given.attention_mask, "use_cache": False}
            torch.testing.assert_close(compiled(**asked).logits, variant(**asked).logits, rtol=0, atol=EXACT)
        assert [each for each in attentions if each] == [3, 3]  # compiled again once, for all numbers of tokens

    def test_token_types_and_pooler(self):
        parent, variant = pair("bert", "BertForSequenceClassification")
        given = batch("right")
        kinds_of_tokens = (torch.arange(13) > 1).long().expand(3, -1)
        asked = {"input_ids": given.input_ids, "attention_mask": given.attention_mask}
        theirs, ours = (model(**asked, token_type_ids=kinds_of_tokens).logits for model in (parent, variant))
        torch.testing.assert_close(ours, theirs, rtol=0, atol=EXACT)

    def test_flattened_texts_have_a_class_each(self):
        parent, variant = pair("bert", "BertForSequenceClassification")
        each, _ = texts("bert")
        alone = torch.cat([parent(input_ids=text[None]).logits for text in each])
        starts = torch.tensor([0, 4, 10, 13], dtype=torch.int32)
        ours = variant(input_ids=torch.cat(each)[None], cu_seq_lens_q=starts).logits
        torch.testing.assert_close(ours, alone, rtol=0, atol=EXACT)


class TestParentsPath:
    @pytest.mark.parametrize(
        ("kind", "head"),
        [
            ("bert", "BertForSequenceClassification"),
            ("roberta", "RobertaForSequenceClassification"),
            ("bert", "BertForQuestionAnswering"),
            ("roberta", "RobertaForQuestionAnswering"),
        ],
    )
    def test_heads_that_read_padding_get_the_parents_states(self, kind, head):
        parent, variant = pair(kind, head)
        given = batch("left")
        asked = {"input_ids": given.input_ids, "attention_mask": given.attention_mask}
        for theirs, ours in zip(parent(**asked).to_tuple(), variant(**asked).to_tuple(), strict=True):
            assert torch.equal(ours, theirs)

    def test_a_cache_is_the_parents(self):
        parent, variant = pair("llama", "LlamaForCausalLM")
        given = batch("left")
        asked = {"input_ids": given.input_ids, "attention_mask": given.attention_mask}
        theirs, ours = (model(**asked, use_cache=True) for model in (parent, variant))
        assert torch.equal(ours.logits, theirs.logits)
        assert ours.past_key_values.get_seq_length() == 13
        told = [model.generate(**asked, max_new_tokens=5, do_sample=False) for model in (parent, variant)]
        assert torch.equal(*told)

    def test_training_makes_no_cache_unless_asked(self):
        _, variant = pair("llama", "LlamaForCausalLM")
        given = batch("right")
        with gathered(variant.train()) as evidence:
            out = variant(given.input_ids, given.attention_mask, labels=given.labels)
            out.loss.backward()
        assert out.past_key_values is None
        assert {shape[:2] for shape in evidence.forwards["LlamaDecoderLayer"]} == {(1, int(given.real.sum()))}

    def test_a_decoder_made_of_an_encoder(self):
        parent, variant = pair("bert", "BertLMHeadModel", is_decoder=True)
        given = batch("right")
        theirs, ours = (model(given.input_ids, given.attention_mask).logits for model in (parent, variant))
        assert torch.equal(ours, theirs)


class TestTogether:
    @pytest.mark.parametrize("policy", ["full", "selective"])
    @kinds
    def test_with_checkpointing(self, kind, policy):
        _, plain = pair(kind, head_of(kind))
        checkpointed = copy.deepcopy(plain)
        switch_on(checkpointed, options_of(policy))
        saved, gradients = [], []
        for model in (plain.train(), checkpointed.train()):
            with gathered(model) as evidence:
                model(**batch("right").inputs()).loss.backward()
            saved.append(evidence.saved_bytes)
            gradients.append([parameter.grad for parameter in model.parameters()])
        torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=0)
        assert saved[1] < saved[0]

    def test_padded_tokens_never_reach_the_masked_lm_head(self):
        model_class = importlib.import_module("generated.bert.modeling_bert_mlm_padding_free").BertForMaskedLM
        given = batch("right")
        model = model_class(tiny_config("bert")).train()
        with gathered(model) as evidence:
            model(**given.inputs()).loss.backward()
        labelled, tokens = int((given.labels != -100).sum()), int(given.real.sum())
        rows = {shape[:-1].numel() for shape in map(torch.Size, evidence.forwards["Linear"])}
        assert rows == {labelled, tokens}


class TestRefused:
    STARTS = torch.tensor([0, 4, 13], dtype=torch.int32)

    def test_other_attention(self):
        _, variant = pair("llama", "LlamaForCausalLM")
        with pytest.raises(ValueError, match="flash_attention_2"):
            variant.set_attn_implementation("flash_attention_2")

    @pytest.mark.parametrize(
        ("more", "why"),
        [
            ({"use_cache": True}, "without a cache"),
            ({"attention_mask": torch.ones(1, 13)}, "without attention_mask"),
            ({"output_attentions": True}, "output_attentions"),
            ({"cu_seq_lens_k": torch.tensor([0, 13])}, "differ"),
        ],
        ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
    )
    def test_lengths_that_would_not_be_followed(self, more, why):
        _, variant = pair("llama", "LlamaForCausalLM")
        with pytest.raises(ValueError, match=why):
            variant(batch().input_ids[:1], cu_seq_lens_q=self.STARTS, **more)

    def test_positions_below_robertas_first(self):
        _, variant = pair("roberta", "RobertaForMaskedLM")
        positions = torch.tensor([[*range(4), *range(9)]])
        with pytest.raises(ValueError, match="position_ids_start=1"):
            variant(batch().input_ids[:1], position_ids=positions)

    @pytest.mark.parametrize("head", ["RobertaForSequenceClassification", "RobertaForQuestionAnswering"])
    def test_packed_rows_in_a_head_that_reads_rows(self, head):
        _, variant = pair("roberta", head)
        with pytest.raises(ValueError, match="whole rows"):
            variant(batch().input_ids[:1], cu_seq_lens_q=self.STARTS)
