"""Which modular file gives a changed copy of a modeling file again, and does it?"""
