# expect: R
# classes: NeoBlock
# --- modeling_toy.py
import xml.etree.ElementTree


class ToyBlock:
    def tree(self):
        return xml.etree.ElementTree.fromstring("<b/>").tag
# --- modular_neo.py
import xml.dom.minidom

from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    def dom(self):
        return xml.dom.minidom.parseString("<a/>").documentElement.tagName
# --- probe
NeoBlock().tree()
NeoBlock().dom()
