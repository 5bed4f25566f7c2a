"""Charts as SVG text: horizontal bars (`bars`) and lines (`lines`), readable on light and on dark ground.

Figures in, one string out; nothing is measured or written here, and nothing beyond the standard library is needed.
"""
