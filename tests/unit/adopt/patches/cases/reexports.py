import torch
import transformers
from transformers import LlamaForCausalLM
from transformers.models.llama import LlamaModel

_OLD = 3


def get_rope(self):
    return self.rotary_emb


LlamaModel.get_rope = get_rope


def forward(self, input_ids=None, **kwargs):
    outputs = self.model(input_ids=input_ids)
    logits = self.lm_head(outputs.last_hidden_state) + self.model.get_rope().inv_freq.sum()
    return transformers.modeling_outputs.CausalLMOutputWithPast(logits=logits)


LlamaForCausalLM.forward = forward

# says:
# +
# +import transformers
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# +    def get_rope(self):
# +        return self.rotary_emb
# +
# -    @can_return_tuple
# -    @auto_docstring
# -    def forward(
# -        self,
# -        input_ids: torch.LongTensor | None = None,
# -        attention_mask: torch.Tensor | None = None,
# -        position_ids: torch.LongTensor | None = None,
# -        past_key_values: Cache | None = None,
# -        inputs_embeds: torch.Tensor | None = None,
# -        labels: torch.LongTensor | None = None,
# -        use_cache: bool | None = None,
# -        logits_to_keep: int | torch.Tensor = 0,
# -        **kwargs: Unpack[TransformersKwargs],
# -    ) -> CausalLMOutputWithPast:
# -        r"""
# -        Example:
# -
# -        ```python
# -        >>> from transformers import AutoTokenizer, LlamaForCausalLM
# -
# -        >>> model = LlamaForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf")
# -        >>> tokenizer = AutoTokenizer.from_pretrained("meta-llama/Llama-2-7b-hf")
# -
# -        >>> prompt = "Hey, are you conscious? Can you talk to me?"
# -        >>> inputs = tokenizer(prompt, return_tensors="pt")
# -
# -        >>> # Generate
# -        >>> generate_ids = model.generate(inputs.input_ids, max_length=30)
# -        >>> tokenizer.batch_decode(generate_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)[0]
# -        "Hey, are you conscious? Can you talk to me?\nI'm not conscious, but I can talk to you."
# -        ```"""
# -        outputs: BaseModelOutputWithPast = self.model(
# -            input_ids=input_ids,
# -            attention_mask=attention_mask,
# -            position_ids=position_ids,
# -            past_key_values=past_key_values,
# -            inputs_embeds=inputs_embeds,
# -            use_cache=use_cache,
# -            **kwargs,
# -        )
# -
# -        hidden_states = outputs.last_hidden_state
# -        hidden_states = slice_logits_to_keep(hidden_states, logits_to_keep)
# -        logits = self.lm_head(hidden_states)
# -
# -        loss = None
# -        if labels is not None:
# -            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)
# -
# -        return CausalLMOutputWithPast(
# -            loss=loss,
# -            logits=logits,
# -            past_key_values=outputs.past_key_values,
# -            hidden_states=outputs.hidden_states,
# -            attentions=outputs.attentions,
# -        )
# +    def forward(self, input_ids=None, **kwargs):
# +        outputs = self.model(input_ids=input_ids)
# +        logits = self.lm_head(outputs.last_hidden_state) + self.model.get_rope().inv_freq.sum()
# +        return transformers.modeling_outputs.CausalLMOutputWithPast(logits=logits)
