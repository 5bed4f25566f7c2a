"""The flash part: tokens out of their rows and back, and what keeps its parent's path."""

import copy
import importlib

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import DataCollatorWithFlattening

import patchgen.runtime  # noqa: F401  (registers "varlen")
from patchgen.parts.flash.lengths import get_unpad_data, packed_mask_function
from patchgen.parts.flash.rows import find_sequences
from patchgen.runtime.tiny import tiny_config
from patchgen.verifying.inputs.arguments import batch
from patchgen.verifying.models.build import draw_weights
from patchgen.verifying.observe.evidence import gather_evidence

pytestmark = pytest.mark.filterwarnings("ignore")

VARIANTS = {
    "bert": ("generated.bert.modeling_bert_padding_free", "BertForMaskedLM", "sdpa"),
    "roberta": ("generated.roberta.modeling_roberta_padding_free", "RobertaForMaskedLM", "sdpa"),
    "llama": ("generated.llama.modeling_llama_packed", "LlamaForCausalLM", "varlen"),
}
LAYERS = {"bert": "BertLayer", "roberta": "RobertaLayer", "llama": "LlamaDecoderLayer"}
EXACT = 1e-12  # in float64, of values of size ten
kinds = pytest.mark.parametrize("kind", VARIANTS)
encoders = pytest.mark.parametrize("kind", ["bert", "roberta"])


def pair(kind, head="", attention="", **changes):
    """The parent's class under sdpa and the variant's, with equal weights, in float64."""
    module, main, usual = VARIANTS[kind]
    config = tiny_config(kind, **changes)
    homes = (
        importlib.import_module(f"transformers.models.{kind}.modeling_{kind}"),
        importlib.import_module(module),
    )
    made = []
    for home, implementation in zip(homes, ("sdpa", attention or usual), strict=True):
        own = copy.deepcopy(config)
        own._attn_implementation = implementation
        made.append(getattr(home, head or main)(own).double().eval())
    draw_weights(made[0])
    made[1].load_state_dict(made[0].state_dict())
    return made


def given(rows="right"):
    words = batch(rows)
    return words, {
        "input_ids": words.input_ids,
        "attention_mask": words.attention_mask,
        "use_cache": False,
    }


def texts(kind, lengths=(4, 6, 3)):
    """Words of some texts, and the first position of this kind of model."""
    ids = batch().input_ids.flatten()[: sum(lengths)]
    return ids.split(lengths), tiny_config(kind).pad_token_id + 1 if kind == "roberta" else 0


class TestTexts:
    MASK = torch.tensor([[1, 1, 0, 1], [0, 1, 0, 0], [1, 1, 1, 1]])

    @staticmethod
    def found(mask, position_ids, rows=1, **told):
        shape = mask.shape if mask is not None else torch.Size([rows, position_ids.shape[1]])
        config = tiny_config("bert")
        config._attn_implementation = "sdpa"
        return find_sequences(config, torch.zeros(*shape, 1), mask, position_ids, told)

    def test_the_rows_of_a_mask_stay_in_attention(self):
        indices, first, mask, told = self.found(self.MASK, None)
        # The first place of a row is kept, for poolers.
        assert indices.tolist() == [0, 1, 3, 4, 5, 8, 9, 10, 11]
        assert mask is self.MASK and first is None
        assert told == {"rows": (indices, 3, 4)}

    def test_positions_that_restart_begin_a_text(self):
        positions = torch.tensor([[0, 1, 2, 0, 1, 7]])
        indices, first, mask, told = self.found(None, positions)
        rows, count, longest = told["rows"]
        assert indices.tolist() == list(range(6)) and first.tolist() == [0, 3, 5]
        assert rows.tolist() == [0, 1, 2, 3, 4, 6] and (count, longest) == (3, 3)
        assert mask.shape == (3, 1, 3, 3) and mask[:, 0, 0].sum(1).tolist() == [3, 2, 1]
        rows, _, _ = self.found(None, positions, rows=2)[3]["rows"]
        assert rows.tolist() == [0, 1, 2, 3, 4, 6, 9, 10, 11, 12, 13, 15]

    def test_lengths_are_taken_as_they_are(self):
        told = {"cu_seq_lens_q": torch.tensor([0, 3, 5, 6]), "max_length_q": 3}
        _, first, _, told = self.found(None, torch.arange(6)[None], **told)
        assert told["rows"][0].tolist() == [0, 1, 2, 3, 4, 6] and first.tolist() == [0, 3, 5]

    def test_whole_rows_are_left_alone(self):
        mask = torch.ones(2, 3)
        assert self.found(mask, None) == (None, None, mask, {})
        assert self.found(None, torch.tensor([[3, 4, 5]])) == (None, None, None, {})

    def test_rows_of_packed_texts_end_texts(self):
        positions = torch.tensor([[0, 1, 2, 0], [5, 6, 7, 8]])
        indices, lengths = get_unpad_data(positions.shape, None, positions)
        assert indices.tolist() == list(range(8))
        assert lengths["cu_seq_lens_q"].tolist() == [0, 3, 4, 8]
        assert lengths["max_length_q"] == lengths["max_length_k"] == 4

    def test_positions_may_count_tokens_or_places(self):
        mask = torch.tensor([[1, 1, 0, 1, 1, 1]])
        for row in ([0, 1, 1, 2, 0, 1], [0, 1, 2, 3, 0, 1]):
            positions = torch.tensor([row])
            _, lengths = get_unpad_data(mask.shape, mask, positions)
            assert lengths["cu_seq_lens_q"].tolist() == [0, 3, 5]
            same = packed_mask_function(
                tiny_config("llama"), mask.shape, mask, positions, None, None
            )
            texts = [[bool(same(0, 0, one, other)) for other in (0, 3, 4)] for one in (0, 3, 4)]
            assert texts == [[True, True, False], [True, True, False], [False, False, True]]


class TestPaddingFree:
    @kinds
    def test_layers_run_on_real_tokens(self, kind):
        parent, variant = pair(kind)
        words, asked = given()
        with gather_evidence(variant) as evidence:
            ours = variant(**asked).logits
        torch.testing.assert_close(
            ours[words.real], parent(**asked).logits[words.real], rtol=0, atol=EXACT
        )
        assert {shape[:2] for shape in evidence.forwards[LAYERS[kind]]} == {
            (1, int(words.real.sum()))
        }
        assert len(evidence.trace.sdpa) == len(evidence.forwards[LAYERS[kind]])

    @kinds
    def test_holes_in_a_mask(self, kind):
        parent, variant = pair(kind)
        torch.manual_seed(0)
        mask = (torch.rand(batch().input_ids.shape) > 0.3).long()
        mask[:, :1] = 1
        theirs, ours = (
            model(batch().input_ids, attention_mask=mask, use_cache=False).logits
            for model in (parent, variant)
        )
        torch.testing.assert_close(ours[mask.bool()], theirs[mask.bool()], rtol=0, atol=EXACT)

    @encoders
    @pytest.mark.parametrize("attention", ["eager", "varlen"])
    def test_under_other_attention(self, kind, attention):
        parent, variant = pair(kind, attention=attention)
        words, asked = given()
        with gather_evidence(variant) as evidence:
            ours = variant(**asked).logits
        torch.testing.assert_close(
            ours[words.real], parent(**asked).logits[words.real], rtol=0, atol=EXACT
        )
        assert {shape[:2] for shape in evidence.forwards[LAYERS[kind]]} == {
            (1, int(words.real.sum()))
        }

    @kinds
    @pytest.mark.parametrize("lengths", [False, True], ids=["positions", "lengths too"])
    def test_flattened_texts_are_computed_as_if_alone(self, kind, lengths):
        parent, variant = pair(kind)
        each, first = texts(kind)
        collate = DataCollatorWithFlattening(
            return_flash_attn_kwargs=lengths, position_ids_start=first
        )
        flat = dict(collate([{"input_ids": text.tolist()} for text in each]))
        del flat["labels"]
        alone = torch.cat(
            [parent(input_ids=text[None], use_cache=False).logits[0] for text in each]
        )
        torch.testing.assert_close(
            variant(**flat, use_cache=False).logits[0], alone, rtol=0, atol=EXACT
        )

    @kinds
    def test_one_call_of_attention_a_layer_under_dropout_and_autocast(self, kind):
        variant = (
            pair(kind, attention_dropout=0.5, attention_probs_dropout_prob=0.5)[1].float().train()
        )
        with gather_evidence(variant) as evidence, torch.autocast("cpu", torch.bfloat16):
            variant(**given()[1])
        assert len(evidence.trace.sdpa) == len(evidence.forwards[LAYERS[kind]])
        if kind == "llama":  # no mask keeps the fast kernels from groups of heads
            assert {(call.mask, call.native_gqa) for call in evidence.trace.sdpa} == {
                ("causal", True)
            }

    def test_flattened_texts_have_a_pooled_state_each(self):
        parent, variant = pair("bert", "BertForSequenceClassification")
        each, _ = texts("bert")
        flat = dict(DataCollatorWithFlattening()([{"input_ids": text.tolist()} for text in each]))
        alone = torch.cat([parent(input_ids=text[None]).logits for text in each])
        ours = variant(flat["input_ids"], position_ids=flat["position_ids"]).logits
        torch.testing.assert_close(ours, alone, rtol=0, atol=EXACT)

    @kinds
    def test_no_dict_is_a_tuple_only_where_it_is_asked_for(self, kind):
        _, variant = pair(kind)
        asked = given()[1]
        assert variant.base_model(**asked, return_dict=None).last_hidden_state is not None
        assert isinstance(variant.base_model(**asked, return_dict=False), tuple)

    @pytest.mark.slow
    @kinds
    def test_one_graph_without_a_mask(self, kind):
        _, variant = pair(kind)
        ids = batch().input_ids
        torch._dynamo.reset()
        compiled = torch.compile(variant, backend="aot_eager", fullgraph=True)
        logits = compiled(ids, use_cache=False).logits
        torch.testing.assert_close(logits, variant(ids, use_cache=False).logits, rtol=0, atol=EXACT)

    @pytest.mark.slow
    @encoders
    def test_all_layers_in_one_graph_for_every_mask(self, kind):
        _, variant = pair(kind)
        attentions = []

        def count(graph, inputs):
            attentions.append(
                sum("scaled_dot_product" in str(node.target) for node in graph.graph.nodes)
            )
            return graph.forward

        torch._dynamo.reset()
        compiled = torch.compile(variant, backend=count)
        for length in (13, 14, 17, 19):
            words = batch("right", length=length)
            ours = compiled(words.input_ids, attention_mask=words.attention_mask).logits
            theirs = variant(words.input_ids, attention_mask=words.attention_mask).logits
            torch.testing.assert_close(ours, theirs, rtol=0, atol=EXACT)
        assert [each for each in attentions if each] == [
            3,
            3,
        ]  # compiled again once, for all numbers of tokens


PACKING = {
    "bert": VARIANTS["bert"],
    "bert mlm": (
        "generated.bert.modeling_bert_mlm_padding_free",
        "BertForMaskedLM",
        "sdpa",
    ),
    "roberta": VARIANTS["roberta"],
    "llama": VARIANTS["llama"],
    "llama fast": ("generated.llama.modeling_llama_fast", "LlamaForCausalLM", "varlen"),
    "qwen3 fast": ("generated.qwen3.modeling_qwen3_fast", "Qwen3ForCausalLM", "varlen"),
}
CAUSAL = ["llama", "llama fast", "qwen3 fast"]
ROWS = ((4, 1, 3, 1, 4), (13,), (1,) * 13)  # lengths of the texts in each row
PADDING = 3


class TestPackedRows:
    """Each text of each row is computed as if it were alone, or the batch is refused."""

    @pytest.fixture(params=PACKING)
    def kind(self, request):
        return request.param

    def models(self, kind, attention):
        model = kind.partition(" ")[0]
        module, head, _ = PACKING[kind]
        home = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
        parent = getattr(home, head)(tiny_config(model)).double().eval()
        draw_weights(parent)
        variant = getattr(importlib.import_module(module), head)
        config = tiny_config(model)
        config._attn_implementation = attention
        variant = variant(config).double().eval()
        variant.load_state_dict(parent.state_dict())
        return parent, variant, tiny_config(model).pad_token_id + 1 if model == "roberta" else 0

    def rows(self, first):
        ids = batch().input_ids
        starts = [[first + place for length in row for place in range(length)] for row in ROWS]
        return ids, torch.tensor(starts)

    def alone(self, parent, ids):
        texts = [
            text for row, lengths in zip(ids, ROWS, strict=True) for text in row.split(lengths)
        ]
        return torch.cat([parent(text[None], use_cache=False).logits[0] for text in texts])

    @pytest.mark.parametrize("attention", ["sdpa", "eager", "varlen"])
    @pytest.mark.parametrize("form", ["positions", "ones", "padded", "multiple"])
    def test_texts_are_as_if_alone(self, kind, attention, form):
        parent, variant, first = self.models(kind, attention)
        ids, positions = self.rows(first)
        expected, asked = self.alone(parent, ids), {"use_cache": False}
        if form == "ones":
            asked["attention_mask"] = torch.ones_like(ids)
        if form in ("padded", "multiple"):
            add = torch.nn.functional.pad
            ids, positions = add(ids, (0, PADDING), value=1), add(positions, (0, PADDING))
        if form == "padded":
            asked["attention_mask"] = (torch.arange(ids.shape[1]) < 13).long().expand_as(ids)
        try:
            found = variant(ids, position_ids=positions, **asked).logits[:, :13].flatten(0, 1)
        except ValueError as error:
            assert "positions begin with" in str(error) and (kind, form) == ("roberta", "multiple")
            return
        # The parent's norms, and its eager softmax, are in float32.
        narrow = "fast" in kind or (kind in CAUSAL and attention == "eager")
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 if narrow else EXACT)

    @pytest.mark.parametrize("attention", ["sdpa", "eager", "varlen"])
    def test_lengths_are_taken_as_they_are(self, kind, attention):
        """Also beside positions that do not restart."""
        parent, variant, first = self.models(kind, attention)
        ids, _ = self.rows(first)
        told = {"cu_seq_lens_q": torch.tensor([0, 4, 13]).int(), "max_length_q": 9}
        positions = torch.tensor([[*range(first, first + 4), *range(first, first + 9)]])
        expected = torch.cat([parent(text).logits[0] for text in ids[:1].split([4, 9], 1)])
        found = variant(ids[:1], position_ids=positions, use_cache=False, **told).logits[0]
        exact = "fast" not in kind and not (kind in CAUSAL and attention == "eager")
        torch.testing.assert_close(found, expected, rtol=0, atol=EXACT if exact else 1e-5)
        if kind in CAUSAL:
            nothing = dict.fromkeys(told)
            found = variant(ids[:1], position_ids=positions, use_cache=False, **nothing).logits[0]
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
        if kind in CAUSAL:  # rotation knows distances alone
            found = variant(ids[:1], use_cache=False, **told).logits[0]
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)

    @pytest.mark.parametrize("kind", CAUSAL)
    @pytest.mark.parametrize("attention", ["sdpa", "varlen"])
    def test_a_causal_model_refuses_packed_texts_with_a_cache(self, kind, attention):
        _, variant, _ = self.models(kind, attention)
        ids, positions = self.rows(0)
        with pytest.raises(ValueError, match="use_cache=False"):
            variant(ids, position_ids=positions, use_cache=True)

    @pytest.mark.parametrize("attention", ["sdpa", "varlen"])
    @pytest.mark.parametrize("kind", CAUSAL)
    @pytest.mark.parametrize("masked", [False, True])
    def test_no_token_is_predicted_from_another_text(self, kind, attention, masked):
        """The loss of packed texts is that of the texts alone, whatever labels first tokens have."""
        parent, variant, _ = self.models(kind, attention)
        ids, positions = self.rows(0)
        texts = [text for row, ends in zip(ids, ROWS, strict=True) for text in row.split(ends)]
        losses = [
            (parent(text[None], labels=text[None]).loss * (len(text) - 1), len(text) - 1)
            for text in texts
            if len(text) > 1
        ]
        expected = sum(loss for loss, _ in losses) / sum(count for _, count in losses)
        mask = {"attention_mask": torch.ones_like(ids)} if masked else {}
        found = variant.train()(ids, position_ids=positions, labels=ids, **mask).loss
        torch.testing.assert_close(found, expected)


class TestParentsPath:
    """Where what stands at padding is read, it is the parent's, but for the order of sums."""

    @pytest.mark.parametrize(
        ("kind", "head"),
        [
            ("bert", "BertForSequenceClassification"),
            ("roberta", "RobertaForSequenceClassification"),
            ("bert", "BertForQuestionAnswering"),
            ("roberta", "RobertaForQuestionAnswering"),
        ],
    )
    def test_heads_that_read_padding(self, kind, head):
        parent, variant = pair(kind, head)
        asked = {name: value for name, value in given("left")[1].items() if name != "use_cache"}
        for theirs, ours in zip(
            parent(**asked).to_tuple(), variant(**asked).to_tuple(), strict=True
        ):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=EXACT)

    @encoders
    def test_question_answering_reads_padding_at_the_right(self, kind):
        parent, variant = pair(kind, f"{kind.title()}ForQuestionAnswering")
        words, _ = given()
        theirs, ours = (
            model(words.input_ids, words.attention_mask).start_logits for model in (parent, variant)
        )
        torch.testing.assert_close(ours, theirs, rtol=0, atol=EXACT)

    @kinds
    def test_all_hidden_states(self, kind):
        parent, variant = pair(kind)
        asked = given()[1] | {"output_hidden_states": True}
        theirs, ours = (model(**asked).hidden_states for model in (parent, variant))
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(
                one[given()[0].real], other[given()[0].real], rtol=0, atol=EXACT
            )

    def test_a_cache_and_generation(self):
        parent, variant = pair("llama")
        words, _ = given("left")
        asked = {"input_ids": words.input_ids, "attention_mask": words.attention_mask}
        theirs, ours = (model(**asked, use_cache=True) for model in (parent, variant))
        torch.testing.assert_close(
            ours.logits[words.real], theirs.logits[words.real], rtol=0, atol=EXACT
        )
        assert ours.past_key_values.get_seq_length() == 13
        lengths = [
            model.generate(**asked, max_new_tokens=5, do_sample=False)
            for model in (parent, variant)
        ]
        assert torch.equal(*lengths)

    def test_training_makes_no_cache(self):
        _, variant = pair("llama")
        words, asked = given()
        out = variant.train()(**{**asked, "use_cache": True}, labels=words.labels)
        assert out.past_key_values is None

    def test_llama_under_sdpa_is_the_parent(self):
        parent, variant = pair("llama", attention="sdpa")
        asked = given()[1]
        assert torch.equal(variant(**asked).logits, parent(**asked).logits)

    def test_a_decoder_made_of_an_encoder(self):
        parent, variant = pair("bert", "BertLMHeadModel", is_decoder=True)
        words, _ = given()
        for cached in (True, False):
            theirs, ours = (
                model(words.input_ids, words.attention_mask, use_cache=cached).logits[words.real]
                for model in (parent, variant)
            )
            torch.testing.assert_close(ours, theirs, rtol=0, atol=EXACT)


class TestTogether:
    @kinds
    def test_with_checkpointing(self, kind):
        _, variant = pair(kind)
        gradients, saved = [], []
        for checkpointed in (False, True):
            model = copy.deepcopy(variant).train()
            if checkpointed:
                model.gradient_checkpointing_enable()
            with gather_evidence(model) as evidence:
                model(**batch("right").inputs()).loss.backward()
            saved.append(evidence.saved_bytes)
            gradients.append([parameter.grad for parameter in model.parameters()])
        torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=0)
        assert saved[1] < saved[0]

    def test_padded_tokens_never_reach_the_masked_lm_head(self):
        model_class = importlib.import_module(
            "generated.bert.modeling_bert_mlm_padding_free"
        ).BertForMaskedLM
        words = batch("right")
        model = model_class(tiny_config("bert")).train()
        with gather_evidence(model) as evidence:
            model(**words.inputs()).loss.backward()
        labelled, tokens = int((words.labels != -100).sum()), int(words.real.sum())
        rows = {shape[:-1].numel() for shape in map(torch.Size, evidence.forwards["Linear"])}
        assert rows == {labelled, tokens}


class TestRefused:
    def test_positions_below_robertas_first(self):
        _, variant = pair("roberta")
        with pytest.raises(ValueError, match="position_ids_start=1"):
            variant(batch().input_ids[:1], position_ids=torch.tensor([[*range(4), *range(9)]]))

    @encoders
    def test_lengths_without_positions(self, kind):
        _, variant = pair(kind)
        with pytest.raises(ValueError, match="together with position_ids"):
            variant(
                batch().input_ids[:1], cu_seq_lens_q=torch.tensor([0, 4, 13], dtype=torch.int32)
            )


def test_a_mask_that_is_not_of_tokens_is_refused_by_attention():
    _, packed = pair("llama", head="LlamaModel")
    words, arguments = given()
    length = words.input_ids.shape[1]
    square = torch.ones(len(words.input_ids), 1, length, length, dtype=torch.bool).tril()
    with pytest.raises(ValueError, match="takes a mask of"):
        packed(**arguments | {"attention_mask": square})
