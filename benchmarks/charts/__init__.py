"""Charts as SVG text, for light and dark backgrounds: horizontal bars (`bars`) and lines (`lines`).

They use the standard library only.
"""
