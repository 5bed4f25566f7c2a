"""`class X(...): ...` has no members; a base that ends alike takes the place of the parent's, another is appended."""
# --- parent
class ZnewForTokenClassification(GenericForTokenClassification, ZnewPreTrainedModel): ...
# --- child
class ZnewForTokenClassification(ZparForTokenClassification, ZnewTextPreTrainedModel, Mixin): ...
# --- merged
class ZnewForTokenClassification(GenericForTokenClassification, ZnewTextPreTrainedModel, Mixin):
    pass
# --- bases
GenericForTokenClassification ZnewTextPreTrainedModel Mixin
